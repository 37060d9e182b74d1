"""Benchmark of a run: speed of training and decoding, memory, and other models beside it.

The model decodes as in ``phmrun eval``: each sentence ends where the model ends it. Random weights would end anywhere.
Beside them, all systems decode as many tokens as the batch's longest reference has. This forgoes the gain of our search
from finished sentences that leave the batch.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Literal, cast

import numpy as np

from phmrun.bench.hugging_face import HuggingFace, has_place_for, transformers_library
from phmrun.bench.machine import facts, peak_memory, waiter, warn_if_busy
from phmrun.bench.run_report import USUAL, Amount, Phase, Report
from phmrun.bench.systems import Answering, Converted, Ours, Sources, System, Training, Untrained, answering, decoding
from phmrun.bench.timing import interleave, profile_call
from phmrun.config import LayerConfig
from phmrun.decoding import max_length
from phmrun.engine.checkpoints import LAST
from phmrun.engine.data import DataModule
from phmrun.engine.trained_model import TrainedModel, choose_device, open_run
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import ParallelData, padded_sources
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.families.sequence_to_sequence.predictor import converted_model, search_from
from phmrun.files import cache_dir
from phmrun.ledger import Run
from phmrun.ledger.recorded_config import network_label
from phmrun.ledger.segment import read_segments
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

Prepare = Callable[[Any], Callable[[], None]]  # prepares a system for a phase, and returns the function to time


def bench_run(
    run: Run,
    *,
    against: Sequence[Opponent] = (),
    amount: Amount = USUAL,
    parts: Sequence[Part] = ("training", "decoding"),
    profiled: bool = False,
    device: str = "auto",
    finished: Callable[[Report], None] = lambda report: None,
) -> Report:
    """Measure a run's model and opponents in the same rounds.

    Return the report of all phases. The run may be unfinished; its last checkpoint is used if there is one. "decoding"
    is the task's prediction. If an opponent of a translation run has random weights, all systems decode as many tokens
    as the batch's longest reference has; otherwise each output ends where its model ends it. Tasks that do not
    translate only have the opponents "dense" and other runs. They measure "dense" only in training, since outputs of
    random weights may take longer to decode. All compute with the run's kernels (``hardware.kernels`` and ``tf32``).

    Args:
        run: The run.
        against: Opponents. A run: another run of the task. "dense": the same model with dense matrices and random
            weights. "hf": Hugging Face's model, with the run's weights if possible, else random ones. "ctranslate2",
            "ctranslate2-int8": the run's weights in that engine, for decoding only.
        amount: Amount of measurements.
        parts: "training", "decoding".
        profiled: Also profile the run's model.
        device: Device, or "auto".
        finished: Called after each phase, with a report of this phase only.

    Raises:
        PhmrunError: A run cannot be used, its data are missing, an opponent does not match, or ``transformers`` is not
            installed.
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
    kernels = trained.kernels(read_segments(run))
    with kernels.applied(), progress("measuring", 2 * len(plans), "phases") as advance:
        machine = {**facts(), "device": place}
        for phase, prepare in plans:
            # Before any opponent is built, since their memory would count in the peak.
            with peak_memory(place) as peak:
                prepare(ours)()
                phase.peak_memory = peak()
            advance(1)
        if (run.checkpoints / LAST).is_file():  # the training phase has changed the weights
            trained.load("last")
        names = [opponent.id if isinstance(opponent, Run) else opponent for opponent in against]
        opponents = {name: _opponent(asked, trained, ours) for name, asked in zip(names, against, strict=True)}
        for phase, prepare in plans:
            unable = Converted if phase.trains else Untrained
            able = {name: built for name, built in opponents.items() if not isinstance(built, unable)}
            passes = {name: prepare(system) for name, system in {"run": ours, **able}.items()}
            phase.timings = interleave(passes, rounds=amount.rounds, settle=waiter(place))
            if profiled:
                phase.operations = profile_call(passes["run"], device=place)
            finished(Report(run, label, machine, [phase]))
            advance(1)
    return Report(run, label, machine, [phase for phase, _ in plans])


def opened(run: Run) -> tuple[TrainedModel, Any]:
    """Load a run with its last weights, and its prepared data.

    Data are loaded without worker processes. Without a checkpoint, weights are the initial ones, with a warning.

    Raises:
        PhmrunError: The run cannot be used, or its data are missing.
    """
    trained = open_run(run)
    alone = trained.config.hardware.model_copy(update={"workers": 0})
    config = trained.config.model_copy(update={"hardware": alone})
    data = TASKS.get(config.task).load("data")(config, cache_dir())
    data.prepare()
    _load(trained)
    return trained, data


def _load(trained: TrainedModel) -> None:
    """Load the last checkpoint in place.

    Log a warning if there is none. Speed does not depend on the weights.
    """
    if (trained.run.checkpoints / LAST).is_file():
        trained.load("last")
    else:
        LOG.warning("the run has no checkpoint yet: its weights are those that training starts with")


def _system(trained: TrainedModel, device: str) -> Ours | Answering:
    """Return a run as a system to measure on ``device``.

    :class:`Ours` for a sequence-to-sequence module, otherwise :class:`Answering`.
    """
    if isinstance(trained.module, SequenceToSequenceModule):
        return Ours(trained.module, search_from(trained.config.decoding), device)  # type: ignore[attr-defined]
    return Answering(trained, device)


def _check_opponent(opponent: Opponent, trained: TrainedModel, ours: Ours | Answering) -> None:
    """Check that an opponent matches the run.

    A run must be of the same task. CTranslate2 and Hugging Face need a sequence-to-sequence task, the latter a
    Transformer. "dense" always matches.

    Raises:
        PhmrunError: It does not match.
    """
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
    """Build the system of an opponent.

    A run is opened with its last weights. "dense" is a new network with random weights and dense matrices everywhere,
    single maps included; a task that does not translate can only train it. CTranslate2's model is converted into the
    run's ``exports`` folder. "hf" has the run's weights if they fit, otherwise random ones.
    """
    config, sizes = trained.config, trained.vocabulary.sizes
    if isinstance(opponent, Run):
        other = open_run(opponent)
        _load(other)
        return _system(other, ours.device)
    if opponent == "dense":
        layers = {name: LayerConfig() for name, value in config if isinstance(value, LayerConfig)}
        dense = config.model_copy(update={**layers, "maps": ()})
        module = TASKS.get(config.task).load("module")(dense, *sizes)
        return Ours(module, ours.search, ours.device) if isinstance(ours, Ours) else Untrained(module, ours.device)
    ours = cast(Ours, ours)
    if opponent != "hf":
        quantization: Quantization = "none" if opponent == "ctranslate2" else "int8"
        search = replace(ours.search, engine="ctranslate2", quantization=quantization)
        # The folder that evaluation with that engine uses, so that weights are converted once.
        place = trained.run.own_folder("exports") / search.directory
        network, vocabularies = ours.module.network, cast(Vocabularies, trained.vocabulary)
        return Converted(converted_model(network, vocabularies, place, search.quantization, ours.device), search)
    options: dict[str, Any] = {"alpha": ours.search.alpha, "device": ours.device, "weights": _lent(trained, ours)}
    return HuggingFace(config.model, *sizes, smoothing=config.training.label_smoothing, **options)


def _lent(trained: TrainedModel, ours: Ours | Answering) -> Transformer | None:
    """Return the run's network if Hugging Face's model can hold its weights.

    Otherwise return None.
    """
    network, model = ours.module.network, trained.config.model
    return network if isinstance(network, Transformer) and has_place_for(network, model) else None


def sampled_lines(data: DataModule, count: int) -> tuple[list[str], int, int]:
    """Return input lines of evenly spaced test items, with two counts.

    Uses the validation split if there is no test split. An item may have several lines.

    Returns:
        Lines of at most ``count`` items, number of these items, number of all items.
    """
    items = list(data.inputs("test" if "test" in data.files else "dev"))
    chosen = [items[number] for number in evenly(len(items), count)]
    return [line for item in chosen for line in item.split("\n")], len(chosen), len(items)


def _decoding(ours: Ours, data: ParallelData, amount: Amount, *, exact: bool) -> Iterator[tuple[Phase, Prepare]]:
    """Yield phases of greedy search and of beam 5 for each batch size.

    The unit of each is sentences. Batch sizes ascend. Sentences of the test split (without one, of the validation
    split) are sorted by length, longest first, and evenly spaced batches of them are taken. Together they have about
    ``amount.sentences`` sentences, or ``amount.single`` for batches of 1. Limits of length are those of the search. If
    ``exact``, each sentence gets as many tokens as the longest reference of its batch.
    """
    pairs = list(read_parallel(*(data.files.get("test") or data.files["dev"])))
    sources = data.vocabulary.source.encode_all([source for source, _ in pairs])
    targets = data.vocabulary.target.encode_all([target for _, target in pairs])
    # Sorted by length as in evaluation, so that batches have little padding.
    order = sorted(range(len(pairs)), key=lambda number: -len(sources[number]))
    for size in sorted(amount.sizes):
        batches = []
        for number in evenly(max(1, len(order) // size), (amount.single if size == 1 else amount.sentences) // size):
            chosen = order[number * size : (number + 1) * size]
            tokens, _ = padded_sources([np.array(sources[sentence]) for sentence in chosen])
            longest = max(len(targets[sentence]) + 1 for sentence in chosen)
            ratio, offset = ours.search.max_length_ratio, ours.search.max_length_offset
            limits = [longest if exact else max_length(len(sources[row]) + 1, ratio, offset) for row in chosen]
            batches.append(Sources(tokens.to(ours.device), limits, exact))
        for beam in BEAMS:
            name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {size}"
            phase = Phase(name, "sentences", sum(len(batch.limits) for batch in batches))
            phase.application = ours.parts(size, beam)[0]
            yield phase, partial(decoding, batches=batches, beam=beam)


def evenly(total: int, count: int) -> list[int]:
    """Return ``count`` distinct, evenly spaced numbers, 0 and ``total`` − 1 included.

    Returns all numbers if ``total`` is smaller, none if it is 0. A ``count`` of 1 or less gives 0 only.
    """
    return [round(number) for number in np.linspace(0, total - 1, max(1, min(count, total)))] if total else []


def training_phase(trained: TrainedModel, data: DataModule, amount: Amount, device: str) -> tuple[Phase, Prepare]:
    """Return the phase of optimizer steps, and its preparation of a system.

    The number of micro-batches is rounded down to whole accumulations, at least one. The phase's amount is the units of
    the first batches. ``prepare`` makes a new optimizer for each system.
    """
    training = trained.config.training
    count = max(1, amount.batches // training.accumulate) * training.accumulate

    def prepare(system: System) -> Training:
        """Return the steps to time, with a new optimizer.

        Its learning rate is that of the first step.
        """
        optimizer = trained.module.make_optimizer(system.network.parameters())
        for group in optimizer.param_groups:
            group["lr"] = trained.module.schedule(1)
        return Training(system, optimizer, data, training, count, device)

    units = sum(batch.units for batch in islice(data.train_dataloader(), count))
    return Phase("training", data.unit, units, trains=True, steps=count // training.accumulate), prepare
