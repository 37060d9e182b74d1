"""A run that has been trained: its weights, its vocabulary, its scores, its use."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from phmrun.config import Experiment, Task, decoding_section, load_run_config, with_decoding
from phmrun.config.identity import canonical_identity, changed_versions, digits_of, without_versions
from phmrun.config.sections import is_hashed
from phmrun.engine.arithmetic import kernels_of
from phmrun.engine.checkpoints import (
    BEST,
    LAST,
    averaged_weights,
    load_checkpoint,
    load_weights,
    step_checkpoints,
    weights_of,
)
from phmrun.engine.code import code_of
from phmrun.engine.data import DataModule, Vocabulary
from phmrun.engine.module import TrainingModule, build_module
from phmrun.engine.processes import keep_freed_memory
from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.files import cache_dir
from phmrun.kernels import Choice
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.ledger.card import write_card
from phmrun.ledger.environment import Split
from phmrun.ledger.listing import OTHER_FILE
from phmrun.ledger.manifest import changed_code
from phmrun.ledger.record import WEIGHTS
from phmrun.ledger.run import HISTORY
from phmrun.ledger.segment import read_segments
from phmrun.metric import metrics_of
from phmrun.metrics import Score
from phmrun.progress import note
from phmrun.registry import OURS, TASKS


class Answer(NamedTuple):
    """What a model says to one piece of input: as it is printed, without the last line end, and as for ``--json``."""

    text: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """What a split of the data gave.

    Attributes:
        scores: By name, with the baselines that need no model: "bleu", "bleu-of-copy".
        predictions: The text of the file of predictions.
        columns: Names of the columns of ``samples``.
        samples: A few inputs with their predictions.
        items: What was predicted: sentences.
        units: How many smaller units these have: tokens.
        unit: Their name, in the plural.
        seconds: Time of the prediction.
        signature: What that time depends on, as ``key:value`` pairs joined by ``|``.
        ending: Of the file of predictions.
    """

    scores: dict[str, Score]
    predictions: str
    columns: Sequence[str]
    samples: Sequence[Sequence[str]]
    items: int
    units: int
    unit: str
    seconds: float
    signature: str
    ending: str = "txt"


class Predictor(Protocol):
    """A trained model with everything that it needs to be used on text.

    One that gives its input back, with something changed, has ``exact = True``: the carriage return of a line that ends
    in CR LF is then part of the line.

    Attributes:
        prompt: What to type, in one line.
    """

    prompt: str

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Answers to a stream of lines, in order, each as soon as its batch is complete."""

    def evaluate(self, data: DataModule, split: str) -> Evaluation:
        """Predictions and scores of a split of the data."""


@dataclass(frozen=True)
class TrainedModel:
    """A run with everything that is needed to use it.

    The vocabulary travels inside the run; the module's weights are loaded when one of the methods needs them.
    """

    run: Run
    config: Experiment
    vocabulary: Vocabulary
    module: TrainingModule

    def load(self, checkpoint: str | None = None, average: int | None = None) -> str:
        """Loads weights into the module, and says which, for a score's signature.

        Args:
            checkpoint: "best", "last" or a file; unless given, what the config's ``training.average`` asks for.
            average: Mean of so many last checkpoints; 0: none; ``None``: the config's.

        Raises:
            PhmrunError: The checkpoint is missing, damaged, or another network's.
        """
        usual = average is None and checkpoint is None
        count = self.config.training.average if usual else average or 0
        if count:
            paths = step_checkpoints(self.run.checkpoints)[-count:]
            if usual:  # a short training has made fewer, or keeps one
                paths = paths or [self._path("last")]
            elif len(paths) < count:
                raise PhmrunError(
                    f"the run keeps {len(paths)} checkpoints, but the mean of {count} was asked for",
                    where="training.keep_last",
                    hint=f"Use --average {len(paths)}, or train with --set training.keep_last={count}.",
                )
            for path in paths:
                self.run.manifest.check(path)
            load_weights(self.module, averaged_weights(paths), self.run.checkpoints)
            return f"average{len(paths)}"
        path = self._path(checkpoint)
        if path.is_relative_to(self.run.path):
            self.run.manifest.check(path)
        loaded = load_checkpoint(path)
        load_weights(self.module, weights_of(loaded, path), path)
        return f"{path.stem}@{loaded.get('global_step', '?')}"

    def predictor(
        self,
        *,
        decoding: Mapping[str, Any] | None = None,
        checkpoint: str | None = None,
        average: int | None = None,
        batch_size: int | None = None,
        device: str = "auto",
    ) -> Predictor:
        """The run as something that answers to text.

        Args:
            decoding: Keys of the config's decoding section to replace.
            checkpoint: See :meth:`load`.
            average: See :meth:`load`.
            batch_size: Items at a time.
            device: "auto", "cpu", "cuda" …

        Raises:
            PhmrunError: The task's decoding has no such key or value, or the checkpoint cannot be used.
        """
        config = with_decoding(self.config, decoding or {})
        weights = self.load(checkpoint, average)
        return replace(self, config=config).loaded(weights, batch_size=batch_size, device=choose_device(device))

    def loaded(self, weights: str, *, batch_size: int | None, device: str) -> Predictor:
        """The run with the weights that its module has now, of this name in a score's signature."""
        keep_freed_memory()
        task: Task = TASKS.get(self.config.task)
        kept = {"exports": self.run.path / "exports"} if task.converts else {}
        predictor: Predictor = task.load("predictor")(
            self.config, self.module, self.vocabulary, weights=weights, batch_size=batch_size, device=device, **kept
        )
        return predictor

    def kernels(self, segments: Sequence[Mapping[str, Any]] = ()) -> Choice:
        """Choose the library of matrix products: that of ``segments``, else the fastest with float32 accuracy."""
        return kernels_of(self.config, lambda: self.module.network, segments)

    def _path(self, checkpoint: str | None) -> Path:
        """The file that a name stands for; the last checkpoint where no validation has chosen a best one."""
        best, last = self.run.checkpoints / BEST, self.run.checkpoints / LAST
        if checkpoint is not None:
            return {"best": best, "last": last}.get(checkpoint, Path(checkpoint))
        if best.is_file():
            return best
        # After a validation there must be a best one.
        if next(self.run.history.rows("val/"), None) is not None:
            raise PhmrunError(
                "the weights of the best validation are missing",
                where=str(best),
                hint="--checkpoint last takes the last ones; training again with --restart makes both.",
                code=ExitCode.DATA,
            )
        return last


def config_of(run: Run) -> Experiment:
    """The config of a run.

    The source of the user's own layers lies in the run directory, but is not executed from there unasked: a run may
    come from somebody else.

    Raises:
        PhmrunError: It is missing or damaged, or it uses a layer that is not loaded.
    """
    try:
        return load_run_config(run.config_path, options_of=options_of)
    except PhmrunError as error:
        own = sorted((run.path / "plugins").glob("*.py"))
        if not own:
            raise
        raise PhmrunError(
            f"the run uses layers of its own: {error.what}",
            where=error.where,
            hint=f"Read {own[0]}, and if you trust it, add --plugin {own[0]}.",
        ) from error


def require_unbroken(run: Run) -> None:
    """Refuse a run of which a file is not as the run has written it; say if nothing is known of its files.

    Weights, predictions and the history are checked when they are read.

    Raises:
        PhmrunError: (exit 3) Naming the broken link.
    """
    if run.manifest.read() is None:
        note(f"{run.id} was made by a release without manifests: its files are used unchecked")
    run.manifest.check_all(without=("checkpoints", "predictions", HISTORY))


def require_same_mathematics(run: Run, config: Experiment) -> None:
    """Refuse a run of which a network, decoder or metric computes something else in this release.

    Raises:
        PhmrunError: (exit 3) Naming what has changed.
    """
    now = canonical_identity(config, run.fingerprints())
    record = run.manifest.read()
    if record is not None and record.identity is not None:
        before = record.identity
    elif digits_of(now) == run.id.rpartition("-")[2]:
        return
    else:  # a run without a manifest: of its id, only the checksum is known
        before = without_versions(now)
        if digits_of(before) != run.id.rpartition("-")[2]:
            return
    if changed := changed_versions(before, now):
        raise PhmrunError(
            f"the run was trained with other mathematics than this release has: {'; '.join(changed)}",
            where=str(run.path),
            hint="Use the release that trained it, or train it anew; its scores stay readable.",
            code=ExitCode.DATA,
        )


def require_same_code(run: Run, config: Experiment) -> None:
    """Refuse a run that other packages' or plug-ins' code has trained than is here; note changes of phmrun's own.

    Raises:
        PhmrunError: (exit 3) Naming what has changed.
    """
    record, now = run.manifest.read(), code_of(config)
    before = record.code if record else {}
    if changed := changed_code({name: facts for name, facts in before.items() if facts["distribution"] != OURS}, now):
        raise PhmrunError(
            f"the run was trained with other code: {'; '.join(changed)}",
            where=str(run.path),
            hint="Install the package, or give the plug-in, that it was trained with, or train it anew.",
            code=ExitCode.DATA,
        )
    if changed := changed_code(before, now):
        note(f"{run.id}: the code has changed since it was trained: {'; '.join(changed)}")


def open_run(run: Run) -> TrainedModel:
    """Opens a run for use; see :func:`config_of` for the user's own layers.

    Raises:
        PhmrunError: The run has no config or vocabulary yet, they are damaged, or it uses a layer that is not loaded.
    """
    require_unbroken(run)
    config = config_of(run)
    require_same_mathematics(run, config)
    require_same_code(run, config)
    if (run.path / WEIGHTS).is_file():
        again = f"`phmrun runs reproduce {run.id} --runs-dir {run.path.parent}` trains it anew."
        raise PhmrunError(
            "the run has no weights: only its result is here", where=str(run.path), hint=again, code=ExitCode.DATA
        )
    if not run.vocabulary.is_dir():
        if (run.checkpoints / LAST).is_file():
            hint = "Put the folder back, or take it from an archive; training with --restart makes it anew."
            raise PhmrunError("the vocabulary is missing", where=str(run.vocabulary), hint=hint, code=ExitCode.DATA)
        raise PhmrunError("the run has not been trained yet", where=str(run.path), code=ExitCode.DATA)
    task: Task = TASKS.get(config.task)
    vocabulary = task.load("vocabulary").load(run.vocabulary)
    module = build_module(config, *vocabulary.sizes)
    return TrainedModel(run, config, vocabulary, module)


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
    data: DataModule | None = None,
) -> dict[str, Any]:
    """Scores a run on one split; writes ``metrics.json`` and the predictions into its directory.

    The name of a score tells what was scored: ``test/bleu`` is of the test set whose checksum the run has recorded and
    of nothing else, wherever its files lie now; scores of other files begin with ``file-``, the file's name and the
    first digits of its checksum. The checksum is part of every score's signature.

    Args:
        trained: The opened run.
        split: A split of its data that has references.
        decoding: Keys of the config's decoding section to replace.
        checkpoint: See :meth:`TrainedModel.load`.
        average: See :meth:`TrainedModel.load`.
        batch_size: Items at a time.
        device: "auto", "cpu", "cuda" …
        files: A file to score instead of a split; of parallel text source and target.
        data: The run's data, where they are at hand already.

    Returns:
        The scores by name, ``test/bleu``; with the settings in the name, ``test-beam1/bleu``, where they are not the
        config's.

    Raises:
        PhmrunError: There is no such split, a file is missing, or the checkpoint cannot be used.
    """
    run, config = trained.run, trained.config
    training = data is not None
    data, split, title, mark = _scored(trained, split, files, data)
    place = choose_device(device)
    predictor = trained.predictor(
        decoding=decoding, checkpoint=checkpoint, average=average, batch_size=batch_size, device=place
    )
    with trained.kernels(read_segments(run) or [{}]).applied():
        evaluation = predictor.evaluate(data, split)
    name = "-".join([title, *_deviations(decoding or {}, config, checkpoint, average)])
    metrics = {f"{name}/{key}": score.to_json() for key, score in evaluation.scores.items()}
    metrics[f"{name}/sentences_per_second"] = {
        "value": evaluation.items / evaluation.seconds,
        "signature": f"{evaluation.signature}|device:{place}|threads:{torch.get_num_threads()}",
        f"{evaluation.unit}_per_second": evaluation.units / evaluation.seconds,
    }
    for value in metrics.values():
        value["signature"] += f"|data:{mark}" if mark else ""
    try:
        run.write(run.predictions / f"{name}.{evaluation.ending}", evaluation.predictions)
        metrics |= _scores_of_items(run, config.task, name, mark, metrics)
        for key, value in metrics.items():
            run.update_metrics(key, value)
        if not name.startswith(OTHER_FILE):
            run.write_samples(evaluation.columns, evaluation.samples)
        write_card(run)
    # The run may lie where nobody can write; its scores are worth showing all the same.
    except (OSError, PhmrunError) as error:
        if training:
            raise
        reason = error if isinstance(error, OSError) else error.what
        note(f"the scores could not be kept in {run.path}: {reason}")
    return metrics


def _scores_of_items(run: Run, task: str, name: str, mark: str, scores: Collection[str]) -> dict[str, Any]:
    """Return the scores of metrics that no predictor computes: measured from the predictions, item by item."""
    found = {}
    for metric in metrics_of(task):
        key = f"{name}/{metric.name}"
        if key in scores or metric.measure is None or metric.read_items is None:
            continue
        items = metric.read_items(run, name, "")
        if items is not None and len(items.counts):
            value = float(metric.measure(items.counts.sum(axis=0, keepdims=True))[0])
            signature = f"items:{metric.name}" + (f"|data:{mark}" if mark else "")
            found[key] = Score(metric.words, value, signature, len(items.counts), "items").to_json()
    return found


def _test_options(config: Experiment) -> str:
    """Options of ``phmrun eval`` that name another test set of a task."""
    parallel = "test_source" in config.data.files
    return "--test-src FILE --test-tgt FILE" if parallel else "--test FILE"


def _check_number_of_files(run: Run, config: Experiment, files: Sequence[Path]) -> None:
    """Raise a `PhmrunError` unless the test set has as many files as the task reads."""
    options = _test_options(config)
    if len(files) == options.count("FILE"):
        return
    needed = "one test file" if len(files) > 1 else "parallel text: a source file and a target file"
    raise PhmrunError(
        f"the task {config.task} is scored on {needed}",
        where=", ".join(map(str, files)),
        hint=f"Run: phmrun eval {run.id} {options}",
    )


def _scored(
    trained: TrainedModel, split: str, files: Sequence[Path], data: DataModule | None
) -> tuple[DataModule, str, str, str]:
    """What to score: the data, the split in them, the name of the scores, and the checksum in signatures.

    Raises:
        PhmrunError: There is no such split, or a file is missing or not what the run has recorded.
    """
    run, config = trained.run, trained.config
    build = TASKS.get(config.task).load("data")
    if files:
        _check_number_of_files(run, config, files)
        other = config.model_copy(update={"data": config.data.testing(*files)})
        data, split = build(other, cache_dir()), "test"
    elif data is None:
        try:
            data = build(config, cache_dir())
        except PhmrunError as error:
            if config.data.name != "files":
                raise
            raise PhmrunError(
                error.what,
                where=error.where,
                valid=error.valid,
                hint=f"If the test set has moved, name it: phmrun eval {run.id} {_test_options(config)}; "
                "what has the same content has the same name. Or give the run's own `phmrun train …` once more "
                "with the data's new place: it trains nothing and remembers them.",
                code=error.code,
            ) from error
    if split not in data.files:
        raise unknown("split", split, data.files, where="--split")
    found, record = Split.of(data.sources(split)), run.data()
    mark = found.mark if found.files else ""
    if files:
        # The content decides, not the path: the run's own test set under another name is still its test set.
        same = record.name_of(found) if record else None
        stem = re.sub(r"[^A-Za-z0-9._]+", "-", Path(found.files[-1].path).name.removesuffix(".gz")).strip("-.")
        name = same or f"{OTHER_FILE}{stem or 'x'}-{found.sha256[:8]}"
        note(f"{', '.join(map(str, files))}: " + (f"this is the run's split {same}" if same else f"scored as {name}"))
        return data, split, name, mark
    known = record.splits.get(split) if record else None
    if known is not None and known.sha256 != found.sha256:
        where = ", ".join(file.path for file in found.files)
        raise PhmrunError(
            f"the data have changed since the run was trained: {split} ({found.mark}, recorded {known.mark})",
            where=where,
            hint=f"Put the old file back, or score this one under a name of its own: phmrun eval {run.id} "
            f"{_test_options(config)}.",
            code=ExitCode.DATA,
        )
    return data, split, split, mark


def choose_device(name: str) -> str:
    """The device that a name stands for; "auto" is a GPU where there is one.

    Raises:
        PhmrunError: The device is not on this machine.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise PhmrunError("there is no CUDA device on this machine", where="--device", valid=("auto", "cpu"))
    return name


def _deviations(
    decoding: Mapping[str, Any], config: Experiment, checkpoint: str | None, average: int | None
) -> list[str]:
    """What of an evaluation is not as the config has it, as parts of a name."""
    usual = decoding_section(config)
    parts = [
        f"{name}{value:g}" if isinstance(value, int | float) else f"{name}-{value}"
        for name, value in sorted(decoding.items())
        if value != getattr(usual, name) and is_hashed(type(usual), name)
    ]
    if checkpoint is not None:
        parts.append(Path(checkpoint).stem)
    if average is not None and average != config.training.average:
        parts.append(f"average{average}")
    return parts
