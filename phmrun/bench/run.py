"""A run's model on its own data: training and decoding speed, memory, and others of its size beside it.

The model is decoded as ``phmrun eval`` does it: every sentence ends where the model ends it. Against random weights,
which would end anywhere, all decode just as many tokens as the batch's longest reference has, so that everybody makes
the same steps. That gives away what our search gains by letting finished sentences leave the batch.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, cast

import numpy as np
import torch

from phmrun.bench.hugging_face import HuggingFace, has_place_for, transformers_library
from phmrun.bench.machine import facts, peak_memory, waiter, warn_if_busy
from phmrun.bench.systems import Answering, Converted, Ours, Sources, System, Training, Untrained, answering, decoding
from phmrun.bench.timing import Operation, Timing, interleave, profile_call
from phmrun.config import LayerConfig
from phmrun.decoding import max_length
from phmrun.engine.checkpoints import LAST
from phmrun.engine.data import DataModule
from phmrun.engine.lightning import move_data_to_device
from phmrun.engine.trained_model import TrainedModel, choose_device, open_run
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import ParallelData, padded_sources
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.families.sequence_to_sequence.predictor import converted_model, search_from
from phmrun.files import cache_dir
from phmrun.ledger import Run
from phmrun.ledger.environment import now
from phmrun.ledger.listing import BATCH, EPOCH, LINE, STEP, TEST, TIMES
from phmrun.ledger.run import network_label
from phmrun.models.ctranslate2 import Quantization
from phmrun.models.transformer import Transformer
from phmrun.progress import progress
from phmrun.registry import TASKS
from phmrun.text.lines import read_parallel
from phmrun.text.vocabularies import Vocabularies

LOG = logging.getLogger("phmrun.bench")

Opponent = Literal["hf", "dense", "ctranslate2", "ctranslate2-int8"] | Run
Part = Literal["training", "decoding"]
BEAMS = (1, 5)
BATCH_SIZE = 64  # items answered at a time where a task's configuration does not say
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}

Prepare = Callable[[Any], Callable[[], None]]  # readies a system for a phase, and returns what is timed


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    rounds: int = 5  # measurements of each system; results are medians over them
    batches: int = 8  # training batches in a measurement
    sizes: Sequence[int] = (1, 64)  # numbers of sentences that are decoded at a time
    sentences: int = 256  # test sentences in a measurement of decoding many at a time
    single: int = 24  # test sentences in a measurement of decoding one at a time


@dataclass
class Phase:
    """One thing that is measured."""

    name: str  # "training", "beam 5, batch 64" …
    unit: str  # what a rate counts per second
    amount: int  # how many of these one measurement has
    # seconds per measurement, by system; the run's own is first
    timings: dict[str, Timing] = field(default_factory=dict)
    peak_memory: int = 0  # most bytes in use in this phase, the run's model alone
    operations: list[Operation] = field(default_factory=list)  # the profile of the run's model, if it was asked for
    application: str | None = None  # how decoding applied the weights
    trains: bool = False  # whether it is training, where weights may be random
    steps: int = 0  # optimizer steps in one measurement, of training

    @property
    def rates(self) -> dict[str, float]:
        """Units per second, by system."""
        return {name: self.amount / timing.median for name, timing in self.timings.items()}

    @property
    def ratios(self) -> dict[str, float]:
        """How many times as fast as each opponent the run's model is."""
        own, *others = self.timings
        return {name: self.timings[name].ratio(self.timings[own]) for name in others}

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "phase": self.name,
            "unit": f"{self.unit}/s",
            "amount": self.amount,
            "steps": self.steps,
            "rates": self.rates,
            "ratios": self.ratios,
            "seconds": {name: list(timing.seconds) for name, timing in self.timings.items()},
            "peak_memory_bytes": self.peak_memory,
            "application": self.application,
            "profile": [operation._asdict() for operation in self.operations],
        }


@dataclass(frozen=True)
class Report:
    """What a benchmark of a run came to."""

    run: Run
    layer: str  # its structure and options
    machine: dict[str, Any]  # what was measured with
    phases: list[Phase]  # what was measured

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "run_id": self.run.id,
            "run_dir": str(self.run.path),
            "layer": self.layer,
            "machine": self.machine,
            "phases": [phase.to_json() for phase in self.phases],
        }

    def record(self) -> None:
        """Keeps what was measured of the run itself in its directory."""
        measured = now()
        self.run.add_bench(
            {
                phase.name: {
                    "unit": f"{phase.unit}/s",
                    "amount": phase.amount,
                    "steps": phase.steps,
                    "seconds": list(phase.timings["run"].seconds),
                    "median_seconds": phase.timings["run"].median,
                    "peak_memory_bytes": phase.peak_memory,
                    "beside": [name for name in phase.timings if name != "run"],
                    "machine": self.machine,
                    "measured": measured,
                }
                for phase in self.phases
            }
        )


def bench_run(
    run: Run,
    *,
    against: Sequence[Opponent] = (),
    amount: Amount = Amount(),
    parts: Sequence[Part] = ("training", "decoding"),
    profiled: bool = False,
    device: str = "auto",
    finished: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measures a run's model, be it trained for one step, and opponents in the same rounds.

    Opponents are other runs of the task; "dense": the same model with dense matrices and random weights; "hf": a model
    of Hugging Face's, with the run's weights where it has a place for them, or of the same sizes; "ctranslate2" and
    "ctranslate2-int8": the run's own weights in that engine, which decodes only. A task that does not translate has
    "dense" alone, and measures it in training only, because what its random weights say may take longer to decode.

    "decoding" is whatever answers the task gives; ``profiled`` also says which operations take the time. ``finished``
    is called with a report of each phase as soon as it is measured.

    Raises:
        PhmrunError: A run cannot be used, its data are missing, an opponent is of another task, or ``transformers`` is
            missing.
    """
    if "hf" in against:
        transformers_library()
    warn_if_busy()
    place = choose_device(device)
    trained, data = opened(run)
    ours = _system(trained, place)
    for opponent in against:
        _check_opponent(opponent, trained, ours)
    label = network_label(trained.config.model_dump(mode="json")) or "run"
    machine = {**facts(), "device": place}
    exact = "dense" in against or ("hf" in against and _lent(trained, ours) is None)
    plans: list[tuple[Phase, Prepare]] = []
    if "decoding" in parts and isinstance(ours, Ours):
        plans += _decoding(ours, data, amount, exact=exact)
    elif "decoding" in parts:
        for size in sorted(amount.sizes):
            lines, count, _ = sampled_lines(data, amount.single if size == 1 else amount.sentences)
            phase = Phase(f"answering, batch {size}", "sentences", count)
            plans.append((phase, partial(answering, lines=lines, batch=size)))
    if "training" in parts:
        plans.append(training_phase(trained, data, amount, place))
    with progress("measuring", 2 * len(plans), "phases") as advance:
        for phase, prepare in plans:
            # Before any opponent is built: what they hold would count in the peak.
            with peak_memory(place) as peak:
                prepare(ours)()
                phase.peak_memory = peak()
            advance(1)
        if (run.checkpoints / LAST).is_file():  # measuring the memory of training has changed the weights
            trained.load("last")
        names = [opponent.id if isinstance(opponent, Run) else opponent for opponent in against]
        opponents = {name: _opponent(each, trained, ours) for name, each in zip(names, against, strict=True)}
        for phase, prepare in plans:
            unable = Converted if phase.trains else Untrained
            able = {name: each for name, each in opponents.items() if not isinstance(each, unable)}
            passes = {name: prepare(system) for name, system in {"run": ours, **able}.items()}
            phase.timings = interleave(passes, rounds=amount.rounds, settle=waiter(place))
            if profiled:
                phase.operations = profile_call(passes["run"], device=place)
            finished(Report(run, label, machine, [phase]))
            advance(1)
    return Report(run, label, machine, [phase for phase, _ in plans])


def opened(run: Run) -> tuple[TrainedModel, Any]:
    """A run with its last weights, and its data, ready to be measured; refuses what cannot be used."""
    trained = open_run(run)
    alone = trained.config.hardware.model_copy(update={"workers": 0})
    config = trained.config.model_copy(update={"hardware": alone})
    data = TASKS.get(config.task).load("data")(config, cache_dir())
    data.prepare()
    _load(trained)
    return trained, data


def _load(trained: TrainedModel) -> None:
    """The last checkpoint's weights; speed does not depend on which, so that a run of one step will do."""
    if (trained.run.checkpoints / LAST).is_file():
        trained.load("last")
    else:
        LOG.warning("the run has no checkpoint yet: its weights are those that training starts with")


def _system(trained: TrainedModel, device: str) -> Ours | Answering:
    """A run as what is measured."""
    if isinstance(trained.module, SequenceToSequenceModule):
        return Ours(trained.module, search_from(trained.config.decoding), device)  # type: ignore[attr-defined]
    return Answering(trained, device)


def _check_opponent(opponent: Opponent, trained: TrainedModel, ours: Ours | Answering) -> None:
    """Refuses what cannot be set against a run, before anything is measured."""
    task = trained.config.task
    what = None
    if isinstance(opponent, Run):
        other = open_run(opponent).config.task
        if other != task:
            what = f"a run of the task {other!r} cannot be set against one of {task!r}"
    elif opponent != "dense" and not isinstance(ours, Ours):
        what = f"{opponent} translates; the task {task!r} does not"
    elif opponent == "hf" and not isinstance(ours.module.network, Transformer):
        what = "Hugging Face's model is a Transformer; the run's network is another"
    if what:
        raise PhmrunError(what, where="--against")


def _opponent(opponent: Opponent, trained: TrainedModel, ours: Ours | Answering) -> System | Converted:
    """Another run, or a model of the same sizes."""
    config, sizes = trained.config, trained.vocabulary.sizes
    if isinstance(opponent, Run):
        other = open_run(opponent)
        _load(other)
        return _system(other, ours.device)
    if opponent == "dense":
        layers = {name: LayerConfig() for name, value in config if isinstance(value, LayerConfig)}
        dense = config.model_copy(update=layers)
        module = TASKS.get(config.task).load("module")(dense, *sizes)
        return Ours(module, ours.search, ours.device) if isinstance(ours, Ours) else Untrained(module, ours.device)
    ours = cast(Ours, ours)
    if opponent != "hf":
        quantization: Quantization = "none" if opponent == "ctranslate2" else "int8"
        search = replace(ours.search, engine="ctranslate2", quantization=quantization)
        # Where evaluation with that engine keeps its model, so that the same weights are converted once for both.
        place = trained.run.path / "exports" / search.directory
        network, vocabularies = ours.module.network, cast(Vocabularies, trained.vocabulary)
        return Converted(converted_model(network, vocabularies, place, search.quantization, ours.device), search)
    options: dict[str, Any] = {"alpha": ours.search.alpha, "device": ours.device, "weights": _lent(trained, ours)}
    return HuggingFace(config.model, *sizes, smoothing=config.training.label_smoothing, **options)


def _lent(trained: TrainedModel, ours: Ours | Answering) -> Transformer | None:
    """The network whose weights Hugging Face's model takes, if it has a place for them."""
    network, model = ours.module.network, trained.config.model
    return network if isinstance(network, Transformer) and has_place_for(network, model) else None


def sampled_lines(data: DataModule, count: int) -> tuple[list[str], int, int]:
    """Lines of some items of the test split, evenly spaced; how many items these are, of how many."""
    items = list(data.inputs("test" if "test" in data.files else "dev"))
    chosen = [items[number] for number in evenly(len(items), count)]
    return [line for item in chosen for line in item.split("\n")], len(chosen), len(items)


def _decoding(ours: Ours, data: ParallelData, amount: Amount, *, exact: bool) -> Iterator[tuple[Phase, Prepare]]:
    """Greedy and beam search, one sentence at a time and many; the least memory first: no phase inherits another's."""
    pairs = list(read_parallel(*(data.files.get("test") or data.files["dev"])))
    sources = data.vocabulary.source.encode_all([source for source, _ in pairs])
    targets = data.vocabulary.target.encode_all([target for _, target in pairs])
    # By length, as evaluation batches them: sentences that are decoded together have little padding.
    order = sorted(range(len(pairs)), key=lambda number: -len(sources[number]))
    for size in sorted(amount.sizes):
        batches = []
        for number in evenly(max(1, len(order) // size), (amount.single if size == 1 else amount.sentences) // size):
            chosen = order[number * size : (number + 1) * size]
            tokens, _ = padded_sources([np.array(sources[sentence]) for sentence in chosen])
            longest = max(len(targets[sentence]) + 1 for sentence in chosen)
            ratio, offset = ours.search.max_length_ratio, ours.search.max_length_offset
            limits = [longest if exact else max_length(len(sources[one]) + 1, ratio, offset) for one in chosen]
            batches.append(Sources(tokens.to(ours.device), limits, exact))
        for beam in BEAMS:
            name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {size}"
            phase = Phase(name, "sentences", sum(len(batch.limits) for batch in batches))
            phase.application = ours.parts(size, beam)[0]
            yield phase, partial(decoding, batches=batches, beam=beam)


def evenly(total: int, count: int) -> list[int]:
    """``count`` numbers below ``total``, evenly spaced and different; all of them where there are no more."""
    return [round(number) for number in np.linspace(0, total - 1, max(1, min(count, total)))] if total else []


def training_phase(trained: TrainedModel, data: DataModule, amount: Amount, device: str) -> tuple[Phase, Prepare]:
    """Optimizer steps."""
    training = trained.config.training
    count = max(1, amount.batches // training.accumulate) * training.accumulate

    def prepare(system: System) -> Training:
        optimizer = trained.module.make_optimizer(system.network.parameters())
        for group in optimizer.param_groups:
            group["lr"] = trained.module.schedule(1)
        return Training(system, optimizer, data, training, count, device)

    units = sum(batch.units for batch in islice(data.train_dataloader(), count))
    return Phase("training", data.unit, units, trains=True, steps=count // training.accumulate), prepare


def measure_times(
    run: Run, wanted: Collection[str], amount: Amount, device: str = "auto", clock: str = "wall"
) -> dict[str, Any]:
    """Measures some of :data:`TIMES` on a trained run, in seconds, and writes them with signatures into its directory.

    They are those that papers' tables print: of this machine, and comparable with each other only where it had nothing
    else to do. The amount is of rounds, training batches (validation batches too) and test items of a measurement; the
    clock is "wall", or "cpu": what this process computes, over all threads, whatever else the machine does.
    Refuses a run that cannot be used, or whose data are missing, and an unknown time.
    """
    for name in wanted:
        if name not in TIMES:
            raise PhmrunError(f"there is no time {name!r}", valid=tuple(TIMES))
    place = choose_device(device)
    trained, data = opened(run)
    system = Answering(trained, place)
    machine = {**facts(), "device": place}
    found: dict[str, tuple[float, str, Timing]] = {}

    def timed(call: Callable[[], object]) -> Timing:
        return interleave({"run": call}, rounds=amount.rounds, settle=waiter(place), clock=CLOCKS[clock])["run"]

    if {LINE, TEST} & {*wanted}:
        lines, count, total = sampled_lines(data, amount.sentences)
        batch = trained.config.model_dump().get("decoding", {}).get("batch", BATCH_SIZE)
        timing = timed(answering(system, lines, batch))
        for name, items in ((LINE, 1), (TEST, total)):
            found[name] = (timing.median * items / count, f"items:{count} of {total}", timing)
    if BATCH in wanted:
        batches = list(islice(data.validation_batches(), amount.batches))

        def score() -> None:  # as validation does
            system.module.eval()
            with torch.inference_mode():
                for batch in batches:
                    system.loss(move_data_to_device(batch, torch.device(place)))

        timing = timed(score)
        found[BATCH] = (timing.median / len(batches), f"batches:{len(batches)}", timing)
    if {STEP, EPOCH} & {*wanted}:
        phase, prepare = training_phase(trained, data, amount, place)
        timing = timed(prepare(system))
        for name, each in ((STEP, 1), (EPOCH, int(run.parameters().get("steps_per_epoch", 0)))):
            found[name] = (timing.median * each / phase.steps, f"steps:{phase.steps}", timing)
    where = f"{machine['gpu'] if place.startswith('cuda') else machine['processor']}|threads:{machine['threads']}"
    times = {
        name: {
            "value": value,
            "signature": f"{said}|rounds:{amount.rounds}|clock:{clock}|{where}|torch:{machine['torch']}",
            "seconds": timing.seconds,
            "machine": machine,
        }
        for name, (value, said, timing) in found.items()
        if name in wanted
    }
    run.add_bench(times)
    return times
