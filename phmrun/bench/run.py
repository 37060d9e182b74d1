"""A run's model on its own data: training and decoding speed, memory, and others of its size beside it.

By itself, the model is decoded as ``phmrun eval`` does it: every sentence ends where the model ends it. Against others,
whose random weights would end anywhere, all decode just as many tokens as the batch's longest reference has, so that
everybody makes the same steps. That gives away what our search gains by letting finished sentences leave the batch.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np

from phmrun.bench.contenders import Contender, Ours, Sources, Training, decoding
from phmrun.bench.machine import facts, peak_memory, waiter, warn_if_busy
from phmrun.bench.marian import Marian, transformers_library
from phmrun.bench.profiling import Operation, profile_call
from phmrun.bench.timing import Timing, interleave
from phmrun.config import LayerConfig, TrainingConfig
from phmrun.decoding import max_length
from phmrun.errors import PhmrunError
from phmrun.files import cache_dir
from phmrun.ledger import Run
from phmrun.ledger.about import layer_label
from phmrun.progress import progress
from phmrun.registry import TASKS
from phmrun.text.parallel import read_parallel
from phmrun.training.checkpoints import LAST
from phmrun.training.parallel import ParallelData, padded_sources
from phmrun.training.sequences import SequenceToSequence
from phmrun.training.trained import Trained, choose_device, open_run
from phmrun.training.translation import search_from

LOG = logging.getLogger("phmrun.bench")

Opponent = Literal["hf", "dense"]
Part = Literal["training", "decoding"]
BEAMS = (1, 5)

Prepare = Callable[[Contender], Callable[[], None]]
"""Readies a contender for a phase, and returns what is timed."""


@dataclass(frozen=True)
class Amount:
    """How much is measured.

    Attributes:
        rounds: Measurements of each contender; results are medians over them.
        batches: Training batches in a measurement.
        sizes: Numbers of sentences that are decoded at a time.
        sentences: Test sentences in a measurement of decoding many at a time.
        single: Test sentences in a measurement of decoding one at a time.
    """

    rounds: int = 5
    batches: int = 8
    sizes: Sequence[int] = (1, 64)
    sentences: int = 256
    single: int = 24


@dataclass
class Phase:
    """One thing that is measured.

    Attributes:
        name: "training", "beam 5, batch 64" …
        unit: What a rate counts per second.
        amount: How many of these one measurement has.
        timings: Seconds per measurement, by contender; the run's own is first.
        peak_memory: Most bytes in use in this phase, the run's model alone.
        operations: The profile of the run's model, if it was asked for.
        application: How decoding applied the weights.
    """

    name: str
    unit: str
    amount: int
    timings: dict[str, Timing] = field(default_factory=dict)
    peak_memory: int = 0
    operations: list[Operation] = field(default_factory=list)
    application: str | None = None

    @property
    def rates(self) -> dict[str, float]:
        """Units per second, by contender."""
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
            "rates": self.rates,
            "ratios": self.ratios,
            "seconds": {name: list(timing.seconds) for name, timing in self.timings.items()},
            "peak_memory_bytes": self.peak_memory,
            "application": self.application,
            "profile": [operation._asdict() for operation in self.operations],
        }


@dataclass(frozen=True)
class Report:
    """What a benchmark of a run came to.

    Attributes:
        run: The run.
        layer: Its structure and options.
        machine: What was measured with.
        phases: What was measured.
    """

    run: Run
    layer: str
    machine: dict[str, Any]
    phases: list[Phase]

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "run_id": self.run.id,
            "run_dir": str(self.run.path),
            "layer": self.layer,
            "machine": self.machine,
            "phases": [phase.to_json() for phase in self.phases],
        }


def bench_run(
    run: Run,
    *,
    against: Sequence[Opponent] = (),
    amount: Amount = Amount(),
    parts: Sequence[Part] = ("training", "decoding"),
    profiled: bool = False,
    device: str = "auto",
) -> Report:
    """Measures a run's model, and opponents in the same rounds.

    Args:
        run: A run that has been trained, be it for one step.
        against: "hf": Hugging Face's Marian model of the same sizes; "dense": the same model with dense matrices.
        amount: How much is measured.
        parts: Training, decoding, or both.
        profiled: Also say which operations take the time.
        device: "auto", "cpu", "cuda" …

    Raises:
        PhmrunError: The run cannot be used, its task does not translate, its data are missing, or ``transformers`` is.
    """
    if "hf" in against:
        transformers_library()
    warn_if_busy()
    place = choose_device(device)
    trained = open_run(run)
    data = TASKS.get(trained.config.task).load("data")(trained.config, cache_dir())
    if not isinstance(trained.module, SequenceToSequence) or not isinstance(data, ParallelData):
        raise PhmrunError(f"the task {trained.config.task!r} does not translate, so it has no such benchmark")
    data.prepare()
    data.loading.workers = 0
    _load(trained)
    search = search_from(trained.config.decoding)  # type: ignore[attr-defined]
    ours = Ours(trained.module, search, place)
    plans: list[tuple[Phase, Prepare]] = []
    if "decoding" in parts:
        plans += _decoding(ours, trained, data, amount, exact=bool(against))
    if "training" in parts:
        plans.append(_training(ours, trained.config.training, data, amount))
    with progress("measuring", 2 * len(plans), "phases") as advance:
        for phase, prepare in plans:
            with peak_memory(place) as peak:
                prepare(ours)()
                phase.peak_memory = peak()
            advance(1)
        contenders: dict[str, Contender] = {"run": ours, **{name: _opponent(name, trained, ours) for name in against}}
        for phase, prepare in plans:
            passes = {name: prepare(contender) for name, contender in contenders.items()}
            phase.timings = interleave(passes, rounds=amount.rounds, settle=waiter(place))
            if profiled:
                phase.operations = profile_call(passes["run"], device=place)
            advance(1)
    label = layer_label(trained.config.layer.model_dump()) or "run"
    return Report(run, label, {**facts(), "device": place}, [phase for phase, _ in plans])


def _load(trained: Trained) -> None:
    """The last checkpoint's weights; speed does not depend on which, so that a run of one step will do."""
    if (trained.run.checkpoints / LAST).is_file():
        trained.load("last")
    else:
        LOG.warning("the run has no checkpoint yet: its weights are those that training starts with")


def _opponent(name: Opponent, trained: Trained, ours: Ours) -> Contender:
    """A model of the same sizes."""
    config, sizes = trained.config, trained.vocabulary.sizes
    if name == "hf":
        return Marian(
            config.model,
            *sizes,
            smoothing=config.training.label_smoothing,
            alpha=ours.search.alpha,
            device=ours.device,
        )
    dense = config.model_copy(update=dict.fromkeys(("layer", "embedding", "output"), LayerConfig()))
    return Ours(TASKS.get(config.task).load("module")(dense, *sizes), ours.search, ours.device)


def _decoding(
    ours: Ours, trained: Trained, data: ParallelData, amount: Amount, *, exact: bool
) -> Iterator[tuple[Phase, Prepare]]:
    """Greedy and beam search, one sentence at a time and many; the least memory first: no phase inherits another's."""
    pairs = list(read_parallel(*(data.files.get("test") or data.files["dev"])))
    sources = data.vocabulary.source.encode_all([source for source, _ in pairs])
    targets = data.vocabulary.target.encode_all([target for _, target in pairs])
    order = sorted(range(len(pairs)), key=lambda number: -len(sources[number]))
    for size in sorted(amount.sizes):
        batches = []
        for number in evenly(max(1, len(order) // size), (amount.single if size == 1 else amount.sentences) // size):
            chosen = order[number * size : (number + 1) * size]
            tokens, _ = padded_sources([np.array(sources[sentence]) for sentence in chosen])
            longest = max(len(targets[sentence]) + 1 for sentence in chosen)
            limits = [
                longest
                if exact
                else max_length(len(sources[sentence]) + 1, ours.search.max_length_ratio, ours.search.max_length_offset)
                for sentence in chosen
            ]
            batches.append(Sources(tokens.to(ours.device), limits, exact))
        for beam in BEAMS:
            name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {size}"
            phase = Phase(name, "sentences", sum(len(batch.limits) for batch in batches))
            phase.application = ours.parts(size, beam)[0]
            yield phase, partial(decoding, batches=batches, beam=beam)


def evenly(total: int, count: int) -> list[int]:
    """``count`` numbers below ``total``, evenly spaced and different; all of them where there are no more."""
    return [round(number) for number in np.linspace(0, total - 1, max(1, min(count, total)))] if total else []


def _training(ours: Ours, training: TrainingConfig, data: ParallelData, amount: Amount) -> tuple[Phase, Prepare]:
    """Optimizer steps."""
    count = max(1, amount.batches // training.accumulate) * training.accumulate

    def prepare(contender: Contender) -> Training:
        optimizer = ours.module.make_optimizer(contender.network.parameters())
        for group in optimizer.param_groups:
            group["lr"] = ours.module.schedule(1)
        return Training(contender, optimizer, data, training, count, ours.device)

    units = sum(batch.units for batch in islice(data.train_dataloader(), count))
    return Phase("training", "target tokens", units), prepare
