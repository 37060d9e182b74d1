"""Trained runs: checks, loading of weights, prediction; and what a training takes from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from phmrun.config import Experiment, Task, load_run_config, with_decoding
from phmrun.config.identity import layer_versions
from phmrun.config.options import options_of
from phmrun.engine.adaptation import adapt, base_run
from phmrun.engine.bookkeeping import kernels_of
from phmrun.engine.checkpoints import (
    BEST,
    LAST,
    averaged_weights,
    load_checkpoint,
    load_weights,
    step_checkpoints,
    weights_of,
)
from phmrun.engine.code import changed_plugins, foreign_marks
from phmrun.engine.counting import network_without_weights
from phmrun.engine.data import DataModule, Vocabulary, contents
from phmrun.engine.module import TrainingModule, build_module
from phmrun.engine.predictor import Predictor
from phmrun.engine.processes import keep_freed_memory
from phmrun.errors import PhmrunError, counted, data_error
from phmrun.kernels.choice import Choice
from phmrun.layers.network import structures_of
from phmrun.layers.structures.guided import Guided
from phmrun.ledger import Run, State
from phmrun.ledger.directory import HISTORY
from phmrun.ledger.record import WEIGHTS
from phmrun.ledger.sameness import same_experiment
from phmrun.registry import TASKS


@dataclass(frozen=True)
class TrainedModel:
    """Opened run.

    Attributes:
        run: Run directory.
        config: Config of the run.
        vocabulary: Vocabulary from the run directory.
        module: Module of the run; `load` and `predictor` load its weights.
    """

    run: Run
    config: Experiment
    vocabulary: Vocabulary
    module: TrainingModule

    def load(self, checkpoint: str | None = None, average: int | None = None) -> str:
        """Load weights into the module, in place.

        Files in the run directory are first checked against its manifest.

        Args:
            checkpoint: "best", "last" or a file. Default: the mean of the config's ``training.average`` last
                checkpoints, or the best checkpoint (the last one without a validation) if that is 0. A short training
                has fewer to average, or only its last checkpoint.
            average: Number of last checkpoints to average; 0: none. Default: the config's, if ``checkpoint`` is not
                set either.

        Returns:
            Name of the weights for a score's signature: file and step ("best@4000"), or "average" and the number of
            checkpoints ("average5"). An unknown step is "?".

        Raises:
            PhmrunError: The run keeps fewer checkpoints than ``average``, or ``checkpoint`` is set beside it (exit 2).
                Or a checkpoint is missing, damaged, or of another network (exit 3).
        """
        if average and checkpoint:
            raise PhmrunError("one checkpoint and the mean of several exclude each other", where="--average")
        usual = average is None and checkpoint is None
        count = self.config.training.average if usual else average or 0
        if count:
            paths = step_checkpoints(self.run.checkpoints)[-count:]
            if usual:  # a short training has fewer
                paths = paths or [self._path("last")]
            elif len(paths) < count:
                raise PhmrunError(
                    f"the run keeps {counted(len(paths), 'step checkpoint')}, but the mean of {count} was asked for",
                    where="--average",
                    hint=f"Use --average {len(paths)}, or train with --set training.keep_last={count} and a smaller "
                    "training.checkpoint_every.",
                )
            for path in paths:
                self.run.manifest.check(path)
            load_weights(self.module, averaged_weights(paths), self.run.checkpoints)
            return f"average{len(paths)}"
        path = self._path(checkpoint)
        if path.absolute().is_relative_to(home := self.run.path.absolute()):
            self.run.manifest.check(self.run.path / path.absolute().relative_to(home))
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
        """Load weights and return a predictor.

        Args:
            decoding: Keys of the config's decoding section to replace.
            checkpoint: See :meth:`load`.
            average: See :meth:`load`.
            batch_size: Items per batch. Default: the task's.
            device: "auto", "cpu", "cuda" …

        Raises:
            PhmrunError: The task's decoding has no such key or value, or the device is not on this machine (exit 2);
                the checkpoint cannot be used (exit 2 or 3).
        """
        config = with_decoding(self.config, decoding or {})
        weights = self.load(checkpoint, average)
        return replace(self, config=config).loaded(weights, batch_size=batch_size, device=choose_device(device))

    def loaded(self, weights: str, *, batch_size: int | None, device: str) -> Predictor:
        """Return a predictor with the module's present weights, named ``weights`` in signatures.

        A task that converts models also gets the run's folder ``exports``. Makes glibc keep freed memory for the rest
        of the process.
        """
        keep_freed_memory()
        task: Task = TASKS.get(self.config.task)
        kind: type[Predictor] = task.load("predictor")
        settings = kind.settings(self.config, batch_size)
        if task.converts:
            settings["exports"] = self.run.access.folder("exports")
        return kind(self.module.network, self.vocabulary, weights=weights, device=device, **settings)

    def kernels(self, segments: Sequence[Mapping[str, Any]] = ()) -> Choice:
        """Return the library of matrix products: see :func:`kernels_of`."""
        return kernels_of(self.config, lambda: self.module.network, segments)

    def _path(self, checkpoint: str | None) -> Path:
        """Return the path of a checkpoint: "best", "last" or a file.

        None is the best checkpoint, or the last one without a validation. A file may not exist.

        Raises:
            PhmrunError: (exit 3) The run has no checkpoint, or the best one is missing although there was a validation.
        """
        best, last = self.run.checkpoints / BEST, self.run.checkpoints / LAST
        if checkpoint in (None, "best", "last") and not best.is_file() and not last.is_file():
            again = f"`phmrun runs reproduce {self.run.reference}` trains it again."
            what = f"there is no such checkpoint: {self.run.id} has none ({self.run.status.state})"
            hint = again if self.run.status.state is State.DONE else "The command that trained it continues it."
            raise data_error(what, self.run.checkpoints, hint)
        if checkpoint is not None:
            return {"best": best, "last": last}.get(checkpoint, Path(checkpoint))
        if best.is_file():
            return best
        # A validation always saves a best checkpoint.
        if next(self.run.history.rows("val/"), None) is not None:
            hint = "--checkpoint last takes the last ones; training again with --restart makes both."
            raise data_error("the weights of the best validation are missing", best, hint)
        return last


def config_of(run: Run) -> Experiment:
    """Return the config of a run.

    The run directory has the source of its plug-ins, but their code is never executed from there: the run may come from
    a third party.

    Raises:
        PhmrunError: The config is missing, damaged, or names a layer that is not loaded. If the run has plug-ins, each
            of these errors names the first (exit 2).
    """
    try:
        return load_run_config(run.config_path, options_of=options_of)
    except PhmrunError as error:
        plugins = sorted((run.path / "plugins").glob("*.py"))
        if not plugins:
            raise
        hint = f"Read {plugins[0]}, and if you trust it, add --plugin {plugins[0]}."
        raise PhmrunError(f"the run uses a plug-in: {error.what}", where=error.where, hint=hint) from error


def _require_same(run: Run, config: Experiment) -> None:
    """Check that mathematics of phmrun, and code of packages and plug-ins, are those of the training.

    Networks, decoders and metrics have versions, which change with what they compute.

    Raises:
        PhmrunError: (exit 3) A version or the code of a package or plug-in differs; names it.
    """
    before = (run.identity() or {}).get("fingerprints", {})
    changes = same_experiment(run, config, {**before, **foreign_marks(config)})
    code = [*changes.checksums, *changed_plugins(run.path / "plugins")]
    anew = "Install the package, or give the plug-in, that it was trained with, or train it anew."
    release = "Use the release that trained it, or train it anew; its scores stay readable."
    for what, changed, hint in (("mathematics than this release has", changes.versions, release), ("code", code, anew)):
        if changed:
            raise data_error(f"the run was trained with other {what}: {'; '.join(changed)}", run.path, hint)


def open_run(run: Run) -> TrainedModel:
    """Open a run for use, without loading weights.

    Plug-ins of the run must be loaded: see :func:`config_of`.

    Raises:
        PhmrunError: The run is not trained, was restored from a record without weights, or is damaged (exit 3); its
            code or mathematics has changed; or it names a layer that is not loaded. Or its task has no network that
            phmrun can load (exit 2).
    """
    run.manifest.check_all(without=("checkpoints", "predictions", HISTORY))  # checked when they are read
    config = config_of(run)
    _require_same(run, config)
    if (run.path / WEIGHTS).is_file():
        again = f"`phmrun runs reproduce {run.reference}` trains it again."
        raise data_error("the run has no weights: only its result is here", run.path, again)
    task: Task = TASKS.get(config.task)
    if task.runner:
        what = f"a run of the task {task.name!r} has scores, and no network that phmrun can load"
        raise PhmrunError(what, where=run.path, hint=f"`phmrun runs show {run.reference}` shows its record.")
    if not run.vocabulary.is_dir():
        raise data_error("the vocabulary is missing, or the run has not been trained yet", run.vocabulary)
    vocabulary = task.load("vocabulary").load(run.vocabulary)
    module = build_module(config, *vocabulary.sizes)
    if config.adapts:
        take_over_base(module, run, config)
    return TrainedModel(run, config, vocabulary, module)


def take_over_base(module: TrainingModule, run: Run, config: Experiment) -> None:
    """Load the base run's weights into a module, in place, and freeze them.

    See :func:`phmrun.engine.adaptation.adapt`.

    Raises:
        PhmrunError: The base run is missing, damaged or changed (exit 3), or has another network (exit 2).
    """
    base = open_run(base_run(config, run.path.parent))
    weights = base.load()
    adapt(module, run, base.run, base.module, weights)


def choose_device(name: str) -> str:
    """Return the name of a device.

    "auto" is "cuda" if there is a GPU, else "cpu". Other names are returned unchanged.

    Raises:
        PhmrunError: (exit 2) This machine, or this torch, has no such device.
    """
    has_cuda = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if has_cuda else "cpu"
    try:
        torch.zeros(1, device=name).item()  # "meta" has no numbers
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        valid = ("auto", "cpu", "cuda") if has_cuda else ("auto", "cpu")
        raise PhmrunError(f"there is no device {name!r} on this machine", where="--device", valid=valid) from error
    return name


@dataclass(frozen=True)
class Derivation:
    """Another run that training starts or learns from.

    Attributes:
        marks: Facts of that run that the run id depends on.
        start: Sets the initial weights of the module; ``None``: they come from the seed.
        teacher: Trained run for distillation, with its weights loaded.
    """

    marks: Mapping[str, str]
    start: Callable[[TrainingModule], None] | None = None
    teacher: TrainedModel | None = None


def taught_by(run: Run) -> Derivation:
    """Return the derivation of a training with a trained run as teacher.

    Marks are "teacher" (its run id) and "teacher's weights" (their name). The student's weights come from the seed; the
    teacher's are loaded.

    Raises:
        PhmrunError: The run cannot be opened.
    """
    trained = open_run(run)
    weights = trained.load()
    return Derivation({"teacher": run.id, "teacher's weights": weights}, teacher=trained)


def begun_with(run: Run) -> Callable[[TrainingModule], None]:
    """Return a function that loads the weights that a run is scored with, in place: the start of another training.

    Guidance begins anew. The function raises a `PhmrunError` if the run cannot be opened, or has another network.
    """

    def start(module: TrainingModule) -> None:
        """Load the weights into a module, in place."""
        trained = open_run(run)
        trained.load()
        load_weights(module, trained.module.state_dict(), run.checkpoints)
        begin_guidance(module)

    return start


def begin_guidance(module: TrainingModule) -> None:
    """Copy Ŵ to D in all guided structures, in place: guidance begins anew."""
    for structure in structures_of(module).values():
        if isinstance(structure, Guided):
            structure.copy_to_dense()


def check_vocabulary(run: Run, data: DataModule) -> None:
    """Check that a run that training continues, starts or learns from has the vocabulary and labels of the data.

    Raises:
        PhmrunError: (exit 2) Its vocabulary is another.
    """
    task: Task = TASKS.get(str(run.values["task"]))
    if contents(task.load("vocabulary").load(run.vocabulary)) != contents(data.vocabulary):
        what = "the vocabulary of that run is another one, so that its weights are of other tokens or labels"
        raise PhmrunError(what, where=run.id, hint="Train both on the same text, with labels in the same order.")


def check_network(run: Run, config: Experiment, sizes: tuple[int, ...]) -> None:
    """Check that the weights of a run that training starts from fit the network of ``config``.

    Raises:
        PhmrunError: (exit 2) Names or shapes of weights differ.
    """
    networks = [network_without_weights(experiment, sizes) for experiment in (config_of(run), config)]
    before, after = ({name: value.shape for name, value in network.state_dict().items()} for network in networks)
    if before != after:
        what = f"the run {run.id} has another network, whose weights do not fit"
        hint = f"`phmrun compress {run.reference} --layer …` replaces its layers, `--layer added` trains updates."
        raise PhmrunError(what, where="--extend", hint=hint)


def changed_training(parent: Run, config: Experiment, data: DataModule) -> list[str]:
    """Return what keeps an experiment from continuing a run's training, by name; nothing if it only trains for longer.

    These are other files, and all settings but those of the training's length, rates and validation, and of the search:
    sums of the optimizer, states of a stream and best score would be those of another training. So is guidance that has
    ended.
    """
    before = parent.identity()
    if before is None:
        return []
    changed = same_experiment(parent, config, {**before["fingerprints"], **data.fingerprints()})
    fixed = ("training.optimizer.", "training.accumulate", "training.monitor")
    return [
        *changed.checksums,
        *(key for key in changed.settings if key.startswith(fixed) or not key.startswith(("training.", "decoding."))),
        *(name for name in layer_versions(config) if name == Guided.name),
    ]


def check_extension(parent: Run, config: Experiment) -> None:
    """Check that a run is extended by at least one optimizer step.

    Without ``training.max_steps`` it is.

    Raises:
        PhmrunError: (exit 2) The run has as many steps as ``training.max_steps``, or more.
    """
    done, asked = parent.status.step, config.training.max_steps
    if asked is not None and asked <= done:
        what = f"the run {parent.id} has {done:,} optimizer steps already, and --max-steps is {asked:,}"
        raise PhmrunError(what, where="--extend", hint=f"Give --max-steps more than {done:,}.")
