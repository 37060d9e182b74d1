"""Evaluation of a trained run on a split or on other files."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from phmrun.checksums import checksum_once, stamp_of
from phmrun.config import Experiment, decoding_section
from phmrun.config.sections import NO_DATA
from phmrun.engine.data import DataModule
from phmrun.engine.trained_model import TrainedModel, choose_device
from phmrun.errors import ExitCode, PhmrunError, data_error, unknown
from phmrun.files import cache_dir
from phmrun.ledger import Run
from phmrun.ledger.environment import DataRecord, Split
from phmrun.ledger.scores import OTHER_FILE, signature_of
from phmrun.metric import metrics_of
from phmrun.metrics import Score
from phmrun.metrics.items import LOSSES, losses_text
from phmrun.progress import note
from phmrun.registry import TASKS
from phmrun.section import is_hashed


def evaluate_run(
    trained: TrainedModel,
    *,
    split: str = "test",
    decoding: Mapping[str, Any] | None = None,
    checkpoint: str | None = None,
    average: int | None = None,
    batch_size: int | None = None,
    device: str = "auto",
    files: Sequence[Path] = (),
    pairs: str | None = None,
    data: DataModule | None = None,
) -> dict[str, Any]:
    """Score a run on one split.

    Scores, predictions, samples (except of other files) and card are written into its directory. Scores named
    ``test/…`` belong to the test set whose checksum the run has recorded, wherever its files are. Scores of other files
    are named ``file-NAME-DIGITS/…``, with the first digits of the checksum. The checksum is part of each score's
    signature, except for data without files.

    Args:
        trained: Opened run.
        split: Name of a split with references. Default: "test".
        decoding: Keys of the config's decoding section to replace.
        checkpoint: See :meth:`TrainedModel.load`.
        average: See :meth:`TrainedModel.load`.
        batch_size: Items per batch. Default: the task's.
        device: "auto", "cpu", "cuda" …
        files: File to score instead of a split; source and target for parallel text.
        pairs: Minimal pairs to score instead of a split: "blimp" of the data directory, or a path. Scores are named
            after them: ``blimp/accuracy``.
        data: Prepared data of the run, passed by training.

    Returns:
        JSON objects of scores by name: ``test/bleu``. Settings that differ from the config's are part of the name:
        ``test-beam1/bleu``. ``test/sentences_per_second`` is the speed.

    Raises:
        PhmrunError: There is no such split, or another number of files than the task reads (exit 2); a file is missing,
            or the data have changed (exit 3); the checkpoint cannot be used (exit 2 or 3).
    """
    run, config = trained.run, trained.config
    if pairs is not None:
        data, split, title, mark = _pairs(trained, pairs)
    else:
        data, split, title, mark = _scored(trained, split, files, data)
    place = choose_device(device)
    predictor = trained.predictor(
        decoding=decoding, checkpoint=checkpoint, average=average, batch_size=batch_size, device=place
    )
    with trained.kernels(run.environment() or [{}]).applied():
        evaluation = predictor.evaluate(data, split)
    predictor.coverage.note_unknown(split)
    name = "-".join([title, *_deviations(decoding or {}, run, config, checkpoint, average)])
    metrics = {f"{name}/{key}": score.to_json() for key, score in evaluation.scores.items()}
    metrics[f"{name}/sentences_per_second"] = {
        "value": evaluation.items / evaluation.seconds,
        "signature": f"{evaluation.signature}|device:{place}|threads:{torch.get_num_threads()}",
        f"{evaluation.unit}_per_second": evaluation.units / evaluation.seconds,
    }
    for value in metrics.values():
        value["signature"] += f"|data:{mark}" if mark else ""
    run.write(run.predictions / f"{name}.{evaluation.ending}", evaluation.predictions)
    if evaluation.losses is not None:
        run.write(run.predictions / f"{name}{LOSSES}", losses_text(evaluation.losses))
    metrics |= _scores_of_items(run, config.task, name, mark, metrics)
    run.add_metrics(metrics)
    if files and "train" not in data.files:
        _note_left_out(run, config.task, metrics)
    if pairs is None and not name.startswith(OTHER_FILE):
        run.write_samples(evaluation.columns, evaluation.samples)
    return metrics


def _note_left_out(run: Run, task: str, scores: Collection[str]) -> None:
    """Name the floors and metrics that the run's test set has, but not the ``scores`` of a file without its data."""
    kinds = {part.name for part in (*metrics_of(task), *TASKS.get(task).baselines)} - {"loss"}  # of test sets alone
    recorded = [key for key in run.metrics() if key.startswith("test/")]
    before, now = ({re.sub(r"^[^/]*/(.*?-of-)?", "", key) for key in keys} & kinds for keys in (recorded, scores))
    if lost := sorted(before - now) if recorded else ["floors that learn from the training data"]:
        note(f"without {', '.join(lost)}: the run's own data are not here, or have changed")


def _scores_of_items(run: Run, task: str, name: str, mark: str, scores: Collection[str]) -> dict[str, Any]:
    """Return the scores of metrics that the predictor does not compute, by name.

    They are computed from the summed counts of the items in the file of predictions. Metrics without ``measure`` or
    items are left out, as are those in ``scores``. A version above 1 is in the signature, since it is in the run id
    only if the task itself lists the metric.
    """
    # A score on record that the predictor has computed is not replaced when it lacks the data for it.
    computed = {key for key, value in run.metrics().items() if not signature_of(value).startswith("items:")}
    added = {}
    for metric in metrics_of(task):
        key = f"{name}/{metric.name}"
        if key in computed.union(scores) or metric.measure is None or metric.read_items is None:
            continue
        try:
            items = metric.read_items(run, name, "")
        except (ModuleNotFoundError, FileNotFoundError):  # the predictor has named the package, or knows no losses
            continue
        except PhmrunError as error:
            if error.code != ExitCode.DATA:
                raise
            continue  # the run's data are not here
        if items is not None and len(items.counts):
            signature = f"items:{metric.name}" + (f"|version:{metric.version}" if metric.version > 1 else "")
            signature += f"|data:{mark}" if mark else ""
            score = Score(metric.words, metric.computed(items.counts), signature, len(items.counts), "items")
            added[key] = score.to_json()
    return added


def _command(run: Run, config: Experiment) -> str:
    """Return the ``phmrun eval`` command for another test set of a run.

    Parallel text has two files, other data one.
    """
    parallel = "test_source" in config.data.files
    return f"phmrun eval {run.reference} {'--test-src FILE --test-tgt FILE' if parallel else '--test FILE'}"


def _scored(
    trained: TrainedModel, split: str, files: Sequence[Path], data: DataModule | None
) -> tuple[DataModule, str, str, str]:
    """Return the data to score, with names and checksum.

    ``files`` are scored as the recorded split with the same content, else as "file-NAME-DIGITS". A note says which.
    Without ``files``, ``data`` are scored, or those of the config if None. The split's checksum must then be the
    recorded one, if there is one.

    Returns:
        Data, name of the split in them, prefix of the scores' names, and digits of the checksum for signatures.

    Raises:
        PhmrunError: There is no such split (exit 2), or a file is missing or has changed (exit 3).
    """
    run, config = trained.run, trained.config
    build, command = TASKS.get(config.task).load("data"), _command(run, config)
    if files:
        if len(files) != command.count("FILE"):
            what = f"{config.task} is scored on another number of files"
            raise PhmrunError(what, where=", ".join(map(str, files)), hint=f"Run: {command}")
        other = config.model_copy(update={"data": config.data.testing(*files)})
        data, split = build(other, cache_dir()), "test"
    elif data is None:
        try:
            data = build(config, cache_dir())
        except PhmrunError as error:
            if config.data.name in (NO_DATA, "files"):
                again = (
                    "Give the run's own `phmrun train …` once more with the data's new place, or name the test set, "
                )
                error.hint = f"{again}which has its old name if its content is the same: {command}"
            raise
    if split not in data.files:
        raise unknown("split", split, data.files, where="--split")
    present, record = Split.of(data.sources(split)), run.data()
    mark = present.mark if present.files else ""
    if files:
        # The content decides, not the path: a copy of the run's test set is its test set.
        same = record.name_of(present) if record else None
        stem = re.sub(r"[^A-Za-z0-9._]+", "-", Path(present.files[-1].path).name.removesuffix(".gz")).strip("-.")
        name = same or f"{OTHER_FILE}{stem or 'x'}-{present.sha256[:8]}"
        note(f"{', '.join(map(str, files))}: " + (f"this is the run's split {same}" if same else f"scored as {name}"))
        return *_beside_training(trained, data, name), name, mark
    recorded = record.splits.get(split) if record else None
    if recorded is not None and recorded.sha256 != present.sha256:
        what = f"the data have changed since the run was trained: {split} ({present.mark}, recorded {recorded.mark})"
        hint = f"Put the old file back, or score this one under a name of its own: {command}"
        raise data_error(what, ", ".join(file.path for file in present.files), hint)
    return data, split, split, mark


def _beside_training(trained: TrainedModel, other: DataModule, name: str) -> tuple[DataModule, str]:
    """Return the run's own data with the test set of ``other`` as a split, and that split's name.

    Floors and measures that learn from the training data are then scored as for the run's own splits. If ``name`` is
    one of these, and has the same content on this machine, it is that split. If the run's data are not here as
    recorded, or the split is a part of its file, the result is ``other`` and "test".
    """
    try:
        whole = TASKS.get(trained.config.task).load("data")(trained.config, cache_dir())
        here = {key: Split.of(whole.sources(key)).sha256 for key in {"train", name} & whole.files.keys()}
    except PhmrunError:
        return other, "test"
    held_out = trained.config.data.hold_out and name in ("train", "dev")  # a part of the file is in the run's split
    if held_out or here.get("train") != (trained.run.data() or DataRecord()).splits.get("train", Split(())).sha256:
        return other, "test"
    if here.get(name) != Split.of(other.sources("test")).sha256:
        whole.adopt(other, name)
    return whole, name


def _pairs(trained: TrainedModel, name: str) -> tuple[Any, str, str, str]:
    """Return minimal pairs, with their name twice and digits of their checksum.

    Raises:
        PhmrunError: The task has none (exit 2), or the pairs are not on this machine or malformed (exit 3).
    """
    task = TASKS.get(trained.config.task)
    if not task.pairs:
        names = [other for other in TASKS.names() if TASKS.get(other).pairs]
        what = f"minimal pairs are judged by runs of {', '.join(names)}, not of {task.name}"
        raise PhmrunError(what, where="--pairs")
    data = task.load("pairs")(name)
    return data, data.name, data.name, Split.of(data.sources(data.name)).mark


def _deviations(
    decoding: Mapping[str, Any], run: Run, config: Experiment, checkpoint: str | None, average: int | None
) -> list[str]:
    """Return an evaluation's settings that differ from the config's, for names.

    An example is ``["beam1", "average5"]``. Changed keys of the decoding come first, in sorted order; texts as
    "key-value". Keys that are not part of run ids are left out. A checkpoint is always named, by its stem, a file of
    another folder with digits of its checksum; ``average`` only if it is not the config's.
    """
    usual = decoding_section(config)
    parts = [
        f"{name}{value:g}" if isinstance(value, int | float) else f"{name}-{value}"
        for name, value in sorted(decoding.items())
        if value != getattr(usual, name) and is_hashed(type(usual), name)
    ]
    if checkpoint is not None:
        path = Path(checkpoint)
        inside = checkpoint in ("best", "last") or path.resolve().is_relative_to(run.path.resolve())
        parts.append(path.stem if inside else f"{path.stem}-{checksum_once(stamp_of(path))[:8]}")
    if average is not None and average != config.training.average:
        parts.append(f"average{average}")
    return parts
