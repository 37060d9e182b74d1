"""Training of an experiment, from its data to its scores."""

import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from phmrun.config import Experiment, run_id, semantic_values, to_yaml, with_absolute_paths
from phmrun.config.identity import canonical_identity
from phmrun.engine.adaptation import with_base, with_base_vocabulary
from phmrun.engine.bookkeeping import kernels_of, recording, scores_of_training, set_threads, tell_validation
from phmrun.engine.checkpoints import LAST, save_start
from phmrun.engine.code import EXTENDS, code_marks
from phmrun.engine.counting import count_parameters, network_without_weights
from phmrun.engine.data import DataModule, build_data, prepare
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.module import Teacher, TrainingModule, build_module, seed_everything
from phmrun.engine.optimizers import Rate, optimizer_from, rate_table
from phmrun.engine.processes import ending_with, leader_died
from phmrun.engine.trained_model import (
    Derivation,
    begun_with,
    changed_training,
    check_extension,
    check_network,
    check_vocabulary,
    open_run,
    take_over_base,
)
from phmrun.errors import ExitCode, Interrupted, PhmrunError
from phmrun.escaping import one_line
from phmrun.files import disk_errors, read_text
from phmrun.ledger import Run, State
from phmrun.ledger.outcome import begin, is_leader, keep_data, log_file, outcome_kept, set_outcome
from phmrun.ledger.sameness import require_same
from phmrun.ledger.segment import Segment
from phmrun.ledger.wandb_mirror import Mirror, wandb_mode
from phmrun.progress import waiting
from phmrun.registry import copy_plugins, plugin_marks

if TYPE_CHECKING:
    from phmrun.engine.fit import Fitted

LOG = logging.getLogger("phmrun.engine")


@dataclass(frozen=True)
class TrainResult:
    """Result of a training run.

    Attributes:
        run_id: Id of the run.
        run_dir: Directory of the run.
        metrics: Scores by name: those of this call, or all of a run that was done before; empty if interrupted.
        state: ``done``, or ``interrupted`` by a time limit.
    """

    run_id: str
    run_dir: Path
    metrics: dict[str, Any]
    state: State


@dataclass(frozen=True)
class DryRun:
    """Plan of a training run.

    Attributes:
        data: Statistics of the prepared data.
        parameters: Parameter counts: see :func:`phmrun.engine.counting.count_parameters`.
        run_id: Id of the run.
        rates: Factors of learning rate and weight decay by parameter; empty if ``rates`` is "one" and ``map_rate`` 1.
    """

    data: dict[str, Any]
    parameters: dict[str, Any]
    run_id: str
    rates: list[Rate]


def dry_run(config: Experiment, *, plugins: Mapping[Path, str] | None = None, parent: Run | None = None) -> DryRun:
    """Prepare the data and count the parameters, without training.

    No run directory is written. Doubts about the data are logged.

    Args:
        config: Resolved config.
        plugins: SHA-256 of the user's plug-in files, by file.
        parent: Run to extend or adapt.

    Raises:
        PhmrunError: The data are missing or malformed (exit 3), the model cannot be built, or ``score_on`` names a
            split that the data lack (exit 2).
    """
    config, data, marks, *_ = _planned(config, plugins or {}, parent)
    name = run_id(config, fingerprints=marks)
    prepare(config, data)
    sizes = data.vocabulary.sizes
    rates = rate_table(network_without_weights(config, sizes), config.training.optimizer)
    return DryRun(data.statistics(), count_parameters(config, sizes), name, rates)


def _planned(
    config: Experiment, plugins: Mapping[Path, str], parent: Run | None
) -> tuple[Experiment, DataModule, dict[str, str], Run | None, Run | None]:
    """Return config with base and absolute paths, data, marks of the run id, and the run that is extended.

    That run is the first of two if its training continues, the second if its weights are the start of another training,
    which is logged; the other is None. Both are None without such a run, and for a base of updates.

    Raises:
        PhmrunError: (exit 3) The training data are missing. (exit 2) The run cannot be extended to this config, or the
            optimizer lacks a setting.
    """
    optimizer_from(config.training.optimizer)(nn.Linear(1, 1))  # raises before data and a run directory are made
    config, parent = with_base(config, parent)
    config = with_base_vocabulary(with_absolute_paths(config))
    data = build_data(config)
    data.require("train")
    changed = changed_training(parent, config, data) if parent else []
    if parent and changed:
        what = "training begins with the trained weights of %s, at step 0 and with a new optimizer; changed are %s"
        LOG.info(what, parent.id, ", ".join(changed))
        config = with_base_vocabulary(config, parent.path.resolve())
        data = build_data(config)
    elif parent:
        check_extension(parent, config)
    marks = {**data.fingerprints(), **plugin_marks(plugins), **code_marks(config)}
    if parent:
        marks[EXTENDS] = parent.id
    return config, data, marks, *((None, parent) if changed else (parent, None))


def train(
    config: Experiment,
    *,
    origin: Mapping[str, str],
    runs_dir: Path,
    plugins: Mapping[Path, str] | None = None,
    restart: Callable[[Run], None] | None = None,
    extend: str | None = None,
    derivation: Derivation | None = None,
    continued: Run | None = None,
) -> TrainResult:
    """Train a model and score it; return the scores.

    An interrupted training of the same experiment is continued. Warnings in the log name doubts about the data, and
    changes of the environment since the run began.

    Args:
        config: Resolved config.
        origin: Source of each value by dotted key; written into the run's ``config.yaml``.
        runs_dir: Directory of all runs.
        plugins: SHA-256 of the user's plug-in files, by file.
        restart: Delete the run's files and train from the start. It is called before they are deleted, and may raise to
            prevent it. None: continue.
        extend: Reference of a run whose last checkpoint becomes this run's first. If more has changed than the
            training's length, rate and validation, only its trained weights are taken, and steps are counted from 0. If
            a layer is ``added``, these are frozen, too, unless that run has frozen weights itself.
        derivation: Another run to start or learn from.
        continued: Run that this must be; its config stays as it is.

    Returns:
        Scores and state. A run that is done is not trained again.

    Raises:
        PhmrunError: The data are missing (exit 3), the loss is not finite or memory ran out (exit 4), or another
            process holds the run, or the experiment is not that of ``continued`` (exit 2).
        Interrupted: A signal has stopped training; the run can be continued.
        SystemExit: (0) This is not the first process of the training.
    """
    from phmrun.engine.fit import check_hardware, quiet_lightning

    quiet_lightning()
    check_hardware(config.training, config.hardware)
    weights = getattr(config.model, "path", None) or (derivation and derivation.start)
    if config.training.max_steps == 0 and not weights:
        hint = f"`phmrun train {config.task} --dry-run` prints the plan. A folder's weights (model.path) need no step."
        what = "no optimizer step is to be trained: max_steps is 0"
        raise PhmrunError(what, where="training.max_steps", valid=("1 or more",), hint=hint)
    wandb_mode(config.logging.wandb)  # raises on an unknown mode, before a run directory exists
    parent = Run.find(runs_dir, extend) if extend else None
    config, data, marks, parent, begun = _planned(config, plugins or {}, parent)
    if derivation:
        marks |= derivation.marks
    prepare(config, data)
    if begun:
        check_vocabulary(begun, data)
        check_network(begun, config, data.vocabulary.sizes)
        derivation = replace(derivation or Derivation({}), start=begun_with(begun))
    if derivation and derivation.teacher:
        check_vocabulary(derivation.teacher.run, data)
    count_parameters(config, data.vocabulary.sizes)  # raises on sizes that do not fit, before a run directory exists
    text = to_yaml(config, origin)
    identity = canonical_identity(config, marks)
    name = run_id(config, fingerprints=marks)
    if continued:
        require_same(continued, config, marks)
        name, text = continued.id, read_text(continued.config_path)
    run = Run.create(runs_dir, name, text)
    with run.lock() if is_leader() else ending_with(leader_died()):
        if is_leader():
            begin(run, text, identity, restart)
            keep_data(run, text, {split: data.sources(split) for split in data.files}, marks)
        if run.status.state is State.DONE:
            LOG.info("the run %s is done; --restart trains it from the start", run.id)
            return TrainResult(run.id, run.path, run.metrics(), State.DONE)
        hint = "The same command then continues from the last checkpoint."
        with log_file(run), outcome_kept(run), disk_errors(ExitCode.TRAINING, hint):
            segments = run.environment()
            if config.hardware.threads or (config.hardware.devices, config.hardware.nodes) == (1, 1):
                set_threads(config.hardware.threads, segments)  # several processes share the cores by themselves
            network = partial(network_without_weights, config, data.vocabulary.sizes)
            kernels = kernels_of(config, network, segments)
            with kernels.applied(), recording(run, config, kernels, is_leader()) as segment:
                return _Training(config, data, run, parent, plugins or {}, derivation, segment).whole()


@dataclass(frozen=True)
class _Training:
    """Training of a run whose lock this process holds.

    Attributes:
        parent: Run to extend; None if there is none.
        segment: Entry of this process in the run's environment; None in all processes but the first.
    """

    config: Experiment
    data: DataModule
    run: Run
    parent: Run | None
    plugins: Mapping[Path, str]
    derivation: Derivation | None
    segment: Segment | None

    def whole(self) -> TrainResult:
        """Train and score the run.

        The weights come from the run's last checkpoint, else from ``parent``'s, else from ``derivation``, else from the
        seed. Base weights of an adaptation are loaded besides.

        Raises:
            SystemExit: This is not the first process; only that one scores.
        """
        leader = is_leader()
        if leader:
            self.run.set_state(State.RUNNING)
        seed_everything(self.config.seed)
        module = build_module(self.config, *self.data.vocabulary.sizes)
        if self.config.hardware.compile:
            # On a GPU its advice names another way to what hardware.tf32 sets.
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores for float32 matrix multiplication")
            module.network.compile()
            LOG.info("compiled: the first steps of each shape of batch take minutes")
        begins = not self.run.checkpoints.joinpath(LAST).is_file()
        if not begins:
            check_vocabulary(self.run, self.data)
        start = self.derivation.start if self.derivation else None
        if begins and start is None:
            module.begin(self.data)
        if self.config.adapts:
            take_over_base(module, self.run, self.config)
        if begins and start is not None:
            start(module)
        if begins and self.config.training.max_steps == 0:
            save_start(self.run.checkpoints, module)
        if self.derivation and self.derivation.teacher:
            distillation = self.config.distillation
            module.teacher = Teacher(self.derivation.teacher.module, distillation.weight, distillation.temperature)
        with self._begin(module) if leader else nullcontext() as mirror:
            fitted = self._fit(module, mirror)
            if mirror is None:
                raise SystemExit(0)  # the first process of the run scores it
            return self._finish(fitted, mirror)

    def _fit(self, module: TrainingModule, mirror: Mirror | None) -> "Fitted":
        """Train a module from its run's last checkpoint, else from ``parent``'s, and record its progress.

        ``mirror`` is that of the first process, None in others.
        """
        from phmrun.engine.fit import fit

        def record(row: dict[str, Any]) -> None:
            """Write a row into history, mirror and status, and log validations.

            Only the first process does.
            """
            if mirror is None:
                return
            self.run.history.append(row)
            mirror.log(row)
            self.run.set_state(State.RUNNING, step=row["step"], seconds=row["time"])
            if self.segment is not None:
                self.segment.progress(row["step"])
            tell_validation(row)

        def resumed(step: int) -> None:
            """Cut the history to ``step``; log a warning if the environment has changed.

            Only the first process does.
            """
            if self.segment is not None:
                self.run.history.cut(step)
                if changed := self.segment.resumed(step):
                    what = "from step %s on the environment of this run is another one, which can change its end: %s"
                    named = "; ".join(changed[:8]) + (f"; and {len(changed) - 8} more" if len(changed) > 8 else "")
                    LOG.warning(what, f"{step:,}", named)
            if mirror and step:
                LOG.info("continuing at optimizer step %s", f"{step:,}")

        fitted = fit(
            module,
            self.data,
            self.config.training,
            self.config.hardware,
            directory=self.run.checkpoints,
            start=self.parent.checkpoints if self.parent else None,
            record=record,
            lines_every=self.config.logging.every,
            resumed=resumed,
            before_writing=self.run.access.lock.require,
            died=lambda death: set_outcome(self.run, State.FAILED, death.what),
        )
        if self.segment is not None:
            self.segment.progress(fitted.step)
        return fitted

    def _begin(self, module: TrainingModule) -> Mirror:
        """Write the records that are complete before training.

        They are vocabulary, sources of plug-ins, parameter counts and the place of the prepared data. Return
        the opened W&B mirror, with a summary of the model. The log gets the run's id, parameters and directory.
        """
        from phmrun.engine.fit import processes

        self.data.vocabulary.save(self.run.vocabulary)
        copy_plugins(self.plugins, self.run.path)
        counts = count_parameters(self.config, self.data.vocabulary.sizes)
        epoch = self.data.steps_in_epochs(1, processes(self.config.training, self.config.hardware))
        self.run.write_parameters({**counts, "data": self.data.statistics(), "steps_per_epoch": epoch})
        self.run.fix(self.data.prepared_path)
        trained = counts["trained_total"]
        LOG.info(
            "run %s · %s parameters (%.1f%% of dense)%s · %s",
            self.run.id,
            f"{counts['total']:,}",
            100 * counts["total"] / counts["dense_total"],
            f", {trained:,} of them trained" if trained < counts["total"] else "",
            one_line(str(self.run.path)),
        )
        values = semantic_values(self.config)
        online = wandb_mode(self.config.logging.wandb) == "online"
        with waiting("connecting to Weights & Biases") if online else nullcontext():
            mirror = Mirror(self.run, self.config.logging.wandb, config=self.config.model_dump(mode="json"))
        mirror.summary(
            {
                "parameters": counts["total"],
                "dense_parameters": counts["dense_total"],
                "model": str(module.network),
                "differs_from_default": ", ".join(f"{key}={value}" for key, value in values.items()),
            }
        )
        return mirror

    def _finish(self, fitted: "Fitted", mirror: Mirror) -> TrainResult:
        """Score the trained model and end the run.

        At a time limit, nothing is scored, and the state is interrupted; otherwise it becomes done. The splits of
        ``score_on`` are scored, then the test set (or "dev"), because samples of the last split are kept. An error
        while scoring sets the state interrupted and is raised. The log says why training ended, and where the run is
        mirrored. A mirror that fails is only a warning.

        Raises:
            Interrupted: A signal has stopped training. The state is set to interrupted first.
        """
        if fitted.signal:
            outcome = f"stopped {fitted.reason}" if not fitted.complete else "trained, but not scored: interrupted"
            self.run.set_state(State.INTERRUPTED, outcome, step=fitted.step, seconds=fitted.seconds)
            raise Interrupted(fitted.signal, outcome)
        self.run.set_state(State.RUNNING, step=fitted.step, seconds=fitted.seconds)
        LOG.info("training ended at optimizer step %s: %s", f"{fitted.step:,}", fitted.reason)
        self.run.add_metrics(scores_of_training(self.run, fitted, self.config.training))
        if not fitted.complete:
            self.run.set_state(State.INTERRUPTED, fitted.reason, step=fitted.step, seconds=fitted.seconds)
            LOG.info("not scored; to score it as it is: phmrun eval %s", self.run.reference)
            return TrainResult(self.run.id, self.run.path, {}, State.INTERRUPTED)
        # The weights are complete: after an error from here on, the same command only scores them.
        with outcome_kept(self.run, State.INTERRUPTED, "trained, but not scored: "):
            metrics: dict[str, Any] = {}
            last = "test" if "test" in self.data.files else "dev"
            for split in (*(name for name in self.config.score_on if name != last), last):
                metrics |= evaluate_run(open_run(self.run), split=split, data=self.data)
        self.run.set_state(State.DONE, fitted.reason, step=fitted.step, seconds=fitted.seconds)
        mirror.samples(self.run.samples())
        mirror.summary({name: score.get("value") for name, score in metrics.items() if isinstance(score, Mapping)})
        return TrainResult(self.run.id, self.run.path, metrics, State.DONE)
