"""Runs of work that phmrun does not train itself: ``with phmrun.record("name") as run: run.score(…)``."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from phmrun.config import Source, resolve, run_id, to_yaml
from phmrun.config.identity import canonical_identity
from phmrun.documents import plain
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import disk_errors, json_text, sha256_of_input
from phmrun.ledger import Run, State
from phmrun.ledger.directory import directory_of_runs
from phmrun.ledger.history import BEST
from phmrun.ledger.outcome import begin, is_leader, keep_data, log_file, outcome_kept
from phmrun.ledger.record import ITEMS
from phmrun.ledger.segment import Segment, facts, segment_of
from phmrun.ledger.wandb_mirror import Mirror
from phmrun.metric import metric_of
from phmrun.registry import copy_plugins, plugin_marks
from phmrun.tasks.script.config import ScriptExperiment
from phmrun.tasks.script.scores import Scores, fault, natural

LOG = logging.getLogger("phmrun.script")
STATUS_EVERY = 1.0
"""Minimum seconds between two writes of status and environment by :meth:`Recording.log`."""


class Recording:
    """Run that is being recorded.

    If the run is done, its scores can only be confirmed.

    Attributes:
        run: Run directory.
        config: Resolved configuration.
        done: True if the run was done before.
        resumed: True if an earlier process began the run.
        scores: Scores so far; they are written at the end.
        segment: Record of this process; not set if the run is done.
        mirror: Mirror in W&B; not set if the run is done.
    """

    segment: Segment
    mirror: Mirror

    def __init__(self, run: Run, config: ScriptExperiment) -> None:
        self.run, self.config = run, config
        self.done = run.status.state is State.DONE
        self.resumed = run.status.started is not None
        self.scores = Scores()
        self._step, self._before = run.status.step, run.status.seconds
        self._began, self._beaten = time.monotonic(), -STATUS_EVERY

    @property
    def id(self) -> str:
        """Run id."""
        return self.run.id

    @property
    def directory(self) -> Path:
        """Folder for the script's own files, such as checkpoints.

        They are kept for the next process of the run.
        """
        return self.run.path / "script"

    @property
    def seconds(self) -> float:
        """Seconds since the run began, earlier processes included.

        Pauses between processes do not count.
        """
        return self._before + time.monotonic() - self._began

    def score(self, name: str, value: float | None = None, items: Sequence[Any] | None = None) -> None:
        """Record a score.

        It is written when the block ends without an error; a score of the same name is replaced. If the run is done,
        the score is only compared with the one on record.

        Args:
            name: Split and metric: "test/accuracy". "val/loss" and the like choose tuned values.
            value: Number, in percent for shares; None: it is computed from the items.
            items: A count for each test item, such as 1 for right and 0 for wrong; None: no verdict over items.

        Raises:
            PhmrunError: The name or a value is malformed (exit 4), or the run is done and has another score, the block
                has ended, or this is a forked process (exit 2).
        """
        self._require_open()
        listed: Any = items.tolist() if items is not None and hasattr(items, "tolist") else items
        self.scores.add(name, plain(value, otherwise=repr), listed, signature="recorded")
        before, now = self.run.score(name), self.scores.values[name]["value"]
        if self.done and before != now:
            hint = "restart=True deletes the run and records it anew. Skip finished runs: if run.done."
            raise PhmrunError(f"{name} is {now}, and {before} is on record", where=self.id, hint=hint)

    def parameters(self, count: int) -> None:
        """Record the number of the network's parameters, for tables.

        It is written with the scores.

        Raises:
            PhmrunError: (exit 4) It is no natural number. (exit 2) As :meth:`score`.
        """
        self._require_open()
        self.scores.parameters = natural(count, "parameters")

    def log(self, step: int, **figures: float) -> None:
        """Append a row to the history and the mirror; update the status.

        If the run is done, nothing happens. The row has "step", "time" (seconds of the run) and the figures. Status and
        environment are written once a second.

        Args:
            step: Optimizer steps so far, at least 0. Rows of an earlier process from this step on are removed at the
                first call.
            **figures: Values by name; a double underscore stands for a slash: ``val__loss=0.3``.

        Raises:
            PhmrunError: (exit 4) The step is no natural number. (exit 2) As :meth:`score`.
        """
        if self.done:
            return
        self._require_open()
        step = natural(plain(step, otherwise=repr), "steps")
        if "first_step" not in self.segment.entry:
            self.run.history.cut(max(0, step - 1))
            self.segment.resumed(max(0, step - 1))
        row = {"step": step, "time": round(self.seconds, 3)}
        row |= {name.replace("__", "/"): plain(value) for name, value in figures.items()}
        self.run.history.append(row)
        self.mirror.log(row)
        self._step = self.segment.entry["last_step"] = step
        if time.monotonic() - self._beaten >= STATUS_EVERY:
            self.beat()

    def beat(self) -> None:
        """Write steps and seconds so far into status and environment."""
        self._beaten = time.monotonic()
        self.run.set_state(State.RUNNING, step=self._step, seconds=self.seconds)
        self.segment.write()

    def finish(self) -> None:
        """Write the scores and mark the run as done.

        The validation score of ``training.monitor``, if set, is also "validation/best", which chooses tuned values.

        Raises:
            PhmrunError: (exit 4) No score was recorded.
        """
        scores, monitor = dict(self.scores.values), self.config.training.monitor
        if not scores:
            raise fault("no score was recorded", 'run.score("test/accuracy", 97.1)', self.id)
        if self.scores.items:
            self.run.write(self.run.path / ITEMS, json_text(self.scores.items))
        if self.scores.parameters is not None:
            self.run.write_parameters({"total": self.scores.parameters})
        if best := scores.get(f"val/{monitor}"):
            scores = {BEST: {**best, "unit": metric_of(monitor).unit, "step": 0}, **scores}
        self.run.add_metrics(scores)
        self.run.set_state(State.DONE, "scored", step=self._step, seconds=self.seconds)
        self.mirror.summary({name: score["value"] for name, score in self.scores.values.items()})

    def _require_open(self) -> None:
        """Check that the block has not ended, and that this process has begun it.

        Raises:
            PhmrunError: (exit 2) It has ended, or this is a fork of that process.
        """
        self.run.lock().require()
        if not self.run.lock().still_held():
            what = "the block of this run has ended; nothing more is recorded"
            raise PhmrunError(what, where=self.id, hint="Call it within `with phmrun.record(…) as run:`.")


def input_checksums(config: ScriptExperiment) -> dict[str, str]:
    """Return the SHA-256 checksums of the input files, by "input PATH".

    Raises:
        PhmrunError: (exit 3) A file is missing or no regular file.
    """
    return {f"input {name}": sha256_of_input(config.directory / name) for name in config.inputs}


@contextmanager
def recording(
    config: ScriptExperiment,
    *,
    origin: Mapping[str, str],
    runs_dir: Path,
    plugins: Mapping[Path, str],
    restart: Callable[[Run], None] | None = None,
) -> Iterator[Recording]:
    """Open a run and record the block in it.

    State, environment, log and scores are written. The run is done if the block ends without an error and has set
    scores, unless the block set another state. An error makes it failed; a signal, Ctrl-C or exit makes it interrupted.
    Errors are raised again. A run that is done is opened unchanged, and nothing is written. A fork of this process that
    leaves the block writes nothing.

    Args:
        config: Resolved configuration.
        origin: Source of each value by dotted key.
        runs_dir: Directory of the runs.
        plugins: SHA-256 of plug-in files by path.
        restart: Called with the run before its records are deleted; may raise to prevent it. None: it is continued.

    Raises:
        PhmrunError: (exit 2) Another process holds the run. (exit 3) Its records are damaged, or an input is missing.
            (exit 4) No score was set, or the disk is full.
    """
    marks = {**input_checksums(config), **plugin_marks(plugins)}
    text = to_yaml(config, origin)
    run = Run.create(runs_dir, run_id(config, fingerprints=marks), text)
    with run.lock():
        begin(run, text, canonical_identity(config, marks), restart)
        record = Recording(run, config)
        if record.done:
            LOG.info("the run %s is done; --restart runs it from the start", run.id)
            yield record
            return
        keep_data(run, text, {"inputs": [config.directory / name for name in config.inputs]}, marks)
        with (
            log_file(run),
            outcome_kept(run),
            disk_errors(ExitCode.TRAINING, "The same command then continues the run."),
            segment_of(run, {**facts(), "threads": config.hardware.threads}) as record.segment,
        ):
            run.set_state(State.RUNNING)
            record.directory.mkdir(exist_ok=True)
            copy_plugins(plugins, run.path)
            run.fix(None)
            LOG.info("run %s · %s", run.id, run.path)
            with Mirror(run, config.logging.wandb, config=config.model_dump(mode="json")) as record.mirror:
                try:
                    yield record
                except BaseException:
                    with suppress(OSError, PhmrunError):  # the disk is full, or this is a fork
                        record.beat()
                    raise
                if not run.lock().forked and run.status.state is State.RUNNING:  # a fork's parent ends the run
                    record.finish()


def record(
    name: str,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    inputs: Sequence[str | os.PathLike[str]] = (),
    runs_dir: str | os.PathLike[str] | None = None,
    restart: bool = False,
) -> AbstractContextManager[Recording]:
    """Record a block of Python as a run.

        with phmrun.record("vit-digits", settings={"lr": 0.001}, seed=1) as run:
            run.score("test/accuracy", 97.1)

    The run is done if the block ends without an error. An exception makes it failed, Ctrl-C interrupted; the same call
    continues it, with the files that the block has left in ``run.directory``. For a run that was done before,
    ``run.done`` is true; the block is executed, and its scores must equal those on record. Settings, environment, log
    and the scores that the block sets are written.

    Args:
        name: Name of the experiment.
        settings: Values by key. ``layer`` is a structure, ``logging`` and ``hardware`` are phmrun's sections.
        seed: Random seed; a number of the record only.
        inputs: Files whose checksums are part of the run id, such as data or this script.
        runs_dir: Directory of the runs; default: ``PHMRUN_RUNS``, else "runs".
        restart: Delete the run of this experiment first.

    Raises:
        PhmrunError: The settings are malformed, another process holds the run, or the block sets no score. Or this is
            not the first process of a distributed training.
    """
    values = {"seed": seed, "inputs": list(inputs), **ScriptExperiment.placed(settings or {}), "data": {"name": name}}
    resolved = resolve(ScriptExperiment, [Source("settings", plain(values))], None)
    if not is_leader():
        raise PhmrunError("only the first process of a training records a run", where="LOCAL_RANK")
    return recording(
        resolved.config,
        origin=resolved.origin,
        runs_dir=directory_of_runs(runs_dir).absolute(),  # the block may change the working directory
        plugins={},
        restart=(lambda _: None) if restart else None,
    )
