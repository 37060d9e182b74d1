"""Runs of work that phmrun does not train itself: ``with phmrun.record("name") as run: run.score(…)``."""

import hashlib
import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phmrun.config import Source, resolve, run_id, to_yaml
from phmrun.config.identity import canonical_identity
from phmrun.documents import parse_json, plain
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import disk_errors, json_text, no_file, read_regular, remove_unfinished, sha256_of, write_text
from phmrun.ledger import Run, State
from phmrun.ledger.directory import directory_of_runs
from phmrun.ledger.environment import DataRecord, Split
from phmrun.ledger.history import BEST
from phmrun.ledger.outcome import clear, is_leader, log_file, outcome_kept, set_outcome
from phmrun.ledger.record import ITEMS
from phmrun.ledger.segment import Segment, facts, segment_of
from phmrun.ledger.status import reason_of
from phmrun.ledger.wandb_mirror import Mirror
from phmrun.metric import find_metric, known_metric
from phmrun.metrics.items import Items, packed
from phmrun.tasks.script.config import ScriptExperiment

NAME = re.compile(r"(?!validation/)[A-Za-z][\w.]*/[A-Za-z][\w.-]*")
"""Name of a score: split and metric. "validation/best" is phmrun's own."""
PARAMETERS = "parameters"
"""Key of the number of the network's parameters, beside the scores."""
TOLERANCE = 1e-6
EXAMPLE = '{"test/accuracy": 97.1}'


@dataclass
class Scores:
    """Scores of a run, by name, in the order of their recording.

    Attributes:
        values: Value, signature and further facts of each score.
        items: Counts of the test items by score.
        parameters: Parameters of the network; None: unknown.
    """

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    items: dict[str, Items] = field(default_factory=dict)
    parameters: int | None = None

    def add(self, name: str, value: Any, items: Sequence[Any] | None = None, *, signature: str = "script") -> None:
        """Add a score, or replace it.

        Value and items must agree to 1e-6 of the value.

        Args:
            name: Split and metric: "test/accuracy".
            value: Number; None: it is computed from the items.
            items: A count for each test item, such as 1 for a right answer and 0 for a wrong one, or a list of the
                counts that the metric needs. None: no verdict over items.
            signature: Settings of the measurement.

        Raises:
            PhmrunError: (exit 4) The name or a value is malformed, a share without items is a fraction, or the items
                give another value.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise fault(f"{name!r:.60} is not a valid name of a score", 'Names are split and metric: "test/accuracy".')
        entry: dict[str, Any] = {"signature": signature}
        metric = known_metric(name)
        if items is not None:
            entry |= {"n": len(items), "unit": "items"}
            value = self._add_items(name, value, items)
        elif isinstance(value, float) and 0 < value <= 1 and metric and metric.unit == "%":
            hint = f"Multiply it by 100: {100 * value:g}. If it is less than 1 %, record its items, too."
            raise fault(f"{name} is {value}, which is a fraction; shares are in percent", hint)
        if not _is_number(value):
            raise fault(f"{name} is {value!r:.60}, which is not a finite number", EXAMPLE)
        self.values[name] = {"value": float(value), **entry}

    def _add_items(self, name: str, value: Any, items: Sequence[Any]) -> Any:
        """Add a score's items, and return its value: that of the metric on their sum if ``value`` is None.

        A list of numbers is taken as counts with an amount of 1 each.

        Raises:
            PhmrunError: (exit 4) The items are no natural numbers, or do not fit the metric or the value.
        """
        metric = find_metric(name)
        if metric is None or metric.measure is None:
            raise fault(f"the metric of {name} takes no items", "Give its value alone, or register it by a plug-in.")
        try:
            counts = np.asarray(items, dtype=np.float64)
            counts = np.stack([counts, np.ones_like(counts)], axis=1) if counts.ndim == 1 else counts
            computed = float(metric.measure(counts.sum(0)[None])[0])
            # Two runs are compared over items if both have the same number of them.
            kept = Items(counts, hashlib.sha256(f"{len(counts)} items".encode()).hexdigest())
            packed(kept)
        except (ValueError, TypeError, IndexError) as error:
            hint = "Items are a list of natural numbers, one per test item."
            raise fault(f"the items of {name} cannot be used: {error}", hint) from error
        if _is_number(value) and abs(computed - value) > TOLERANCE * max(1.0, abs(value)):
            hint = "Shares are in percent: 97.1. A count of a right item is 1."
            raise fault(f"{name} is {value}, and its items give {computed:.6g}", hint)
        self.items[name] = kept
        return computed if value is None else value

    def write(self, run: Run, monitor: str) -> None:
        """Write scores, items and the number of parameters into a run.

        Items and parameters are left out if there are none. The score "val/MONITOR", if set, is also written as
        "validation/best", which chooses tuned values.
        """
        if self.items:
            run.write(run.path / ITEMS, json_text({name: packed(items) for name, items in self.items.items()}))
        if self.parameters is not None:
            run.write_parameters({"total": self.parameters})
        scores = dict(self.values)
        if best := scores.get(f"val/{monitor}"):
            metric = find_metric(monitor)
            scores = {BEST: {**best, "unit": metric.unit if metric else "", "step": 0}, **scores}
        run.add_metrics(scores)


def read_scores(path: Path) -> Scores:
    """Read the scores file of a script.

    A value is a number, or a mapping with "value" and "items"; "parameters" is the number of parameters. Items are a
    list with at least one entry. Any other key of a mapping is an error, which names the file.

    Raises:
        PhmrunError: (exit 4) It is missing, malformed, or has no score.
    """
    where = str(path)
    try:
        content = parse_json(read_regular(path), unique=True)
    except FileNotFoundError as error:
        hint = f"Write {EXAMPLE}; the key `scores` names the file."
        raise fault("the script has ended and written no scores", hint, where) from error
    except (OSError, ValueError) as error:
        what = f"the scores cannot be read: {reason_of(error)}"
        raise fault(what, f"The file is JSON: {EXAMPLE}.", where) from error
    if not isinstance(content, Mapping) or not content.keys() - {PARAMETERS}:
        raise fault("there is no score in the file", f"The file is a JSON object: {EXAMPLE}.", where)
    scores = Scores()
    try:
        for name, score in content.items():
            if name == PARAMETERS:
                scores.parameters = natural(score, "parameters")
                continue
            entry = score if isinstance(score, Mapping) else {"value": score}
            items = entry.get("items")
            if entry.keys() - {"value", "items"} or not (items is None or (isinstance(items, list) and items)):
                hint = '{"test/accuracy": {"value": 97.1, "items": [1, 0, 1]}}'
                raise fault(f"{name!r:.60} is no number, and has other keys than a value and a list of items", hint)
            scores.add(name, entry.get("value"), items)
    except PhmrunError as error:
        error.where = where
        raise
    return scores


def natural(value: Any, what: str) -> int:
    """Return a natural number of 63 bits.

    Raises:
        PhmrunError: (exit 4) The value is none; ``what`` names the things that it counts.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise fault(f"{value!r:.60} is not a number of {what}: 0, 1, 2, …", None)
    return value


def fault(what: str, hint: str | None, where: str | None = None) -> PhmrunError:
    """Return an error with exit code 4."""
    return PhmrunError(what, where=where, hint=hint, code=ExitCode.TRAINING)


def _is_number(value: Any) -> bool:
    """True for finite floats and whole numbers of 64 bits.

    It is False for booleans and other values.
    """
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return whole or (isinstance(value, float) and math.isfinite(value))


LOG = logging.getLogger("phmrun.script")
FOLDER = "script"
"""Folder of the script's own files in its run directory."""
INPUTS = "inputs"
STATUS_EVERY = 1.0
"""Minimum seconds between two writes of the status by :meth:`Recording.log`."""


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
        closed: True after the block.
    """

    segment: Segment
    mirror: Mirror

    def __init__(self, run: Run, config: ScriptExperiment) -> None:
        self.run, self.config = run, config
        self.done = run.status.state is State.DONE
        self._recorded = run.metrics() if self.done else {}
        self.resumed = run.status.started is not None
        self.scores = Scores()
        self.closed = False
        self._before, self._began, self._beaten = run.status.seconds, time.monotonic(), -STATUS_EVERY
        self._step = run.status.step

    @property
    def id(self) -> str:
        """Run id."""
        return self.run.id

    @property
    def directory(self) -> Path:
        """Folder for the script's own files, such as checkpoints.

        They are kept for the next process of the run.
        """
        return self.run.path / FOLDER

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
        recorded = self._recorded.get(name)
        before, now = recorded and recorded["value"], self.scores.values[name]["value"]
        if self.done and before != now:
            raise PhmrunError(
                f"{name} is {now}, and {before} is on record",
                where=self.id,
                hint="restart=True deletes the run and records it anew. Skip finished runs: if run.done.",
            )

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

        If the run is done, nothing happens. The row has "step", "time" (seconds of the run) and the figures. The status
        is written once a second.

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
        self._step = step
        if time.monotonic() - self._beaten >= STATUS_EVERY:
            self._beaten = time.monotonic()
            self.run.set_state(State.RUNNING, step=step, seconds=self.seconds)
        self.segment.progress(step)

    def beat(self) -> None:
        """Write steps and seconds so far into status and environment."""
        self.run.set_state(State.RUNNING, step=self._step, seconds=self.seconds)
        self.segment.write()

    def finish(self) -> None:
        """Write the scores and mark the run as done.

        Raises:
            PhmrunError: (exit 4) No score was recorded.
        """
        if not self.scores.values:
            raise fault("no score was recorded", 'run.score("test/accuracy", 97.1)', self.id)
        self.scores.write(self.run, self.config.training.monitor)
        self.run.set_state(State.DONE, "scored", step=self._step, seconds=self.seconds)
        self.mirror.summary({name: score["value"] for name, score in self.scores.values.items()})
        self.mirror.finish()

    def _require_open(self) -> None:
        """Check that the block has not ended, and that this process has begun it.

        Raises:
            PhmrunError: (exit 2) It has ended, or this is a fork of that process.
        """
        if self.closed:
            raise PhmrunError(
                "the block of this run has ended; nothing more is recorded",
                where=self.id,
                hint="Call it within `with phmrun.record(…) as run:`.",
            )
        self.run.access.lock.require()


def input_checksums(config: ScriptExperiment) -> dict[str, str]:
    """Return the SHA-256 checksums of the input files, by "input PATH".

    Raises:
        PhmrunError: (exit 3) A file is missing or no regular file.
    """
    for name in config.inputs:
        if not (path := config.folder / name).is_file():
            hint = f"Paths are below {config.folder}."
            raise PhmrunError(f"the input {no_file(path)}", where=str(path), hint=hint, code=ExitCode.DATA)
    return {f"input {name}": sha256_of(config.folder / name) for name in config.inputs}


@contextmanager
def recording(
    config: ScriptExperiment,
    marks: Mapping[str, str],
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
        marks: Checksums that the run id depends on.
        origin: Source of each value by dotted key.
        runs_dir: Directory of the runs.
        plugins: SHA-256 of plug-in files by path.
        restart: Called with a run that has begun, before its records are deleted; None: the run is continued.

    Raises:
        PhmrunError: (exit 2) Another process holds the run. (exit 3) Its records are damaged. (exit 4) No score was
            set, or the disk is full.
    """
    config = config.model_copy(update={"directory": config.folder})
    text = to_yaml(config, {key: label for key, label in origin.items() if label != "default"})
    run = Run.create(runs_dir, run_id(config, fingerprints=marks), text)
    with run.lock():
        if restart:
            if run.status.started is not None:
                restart(run)
            clear(run, text)
        remove_unfinished(run.path)
        run.begin(canonical_identity(config, marks))
        record = Recording(run, config)
        try:
            if record.done:
                LOG.info("the run %s is done; --restart runs it from the start", run.id)
                yield record
                return
            run.write_config(text)
            inputs = Split.of([config.folder / name for name in config.inputs])
            run.write_data(DataRecord({INPUTS: inputs} if inputs.files else {}, dict(marks)))
            with (
                log_file(run),
                outcome_kept(run),
                disk_errors(ExitCode.TRAINING, "The same command then continues the run."),
                segment_of(run, {**facts(), "threads": config.hardware.threads}) as record.segment,
            ):
                run.set_state(State.RUNNING)
                record.directory.mkdir(exist_ok=True)
                for path in plugins:
                    write_text(run.path / "plugins" / path.name, path.read_text(encoding="utf-8"))
                run.fix(None)
                record.mirror = Mirror(run, config.logging.wandb, config=config.model_dump(mode="json"))
                LOG.info("run %s · %s", run.id, run.path)
                with _interruptible(record):
                    yield record
                    if not run.access.lock.forked and run.status.state is State.RUNNING:  # a fork's parent ends the run
                        record.finish()
        finally:
            record.closed = True


@contextmanager
def _interruptible(record: Recording) -> Iterator[None]:
    """Write steps and seconds of a run if the block raises, and the state of one whose process exits."""
    run = record.run
    try:
        yield
    except BaseException as error:
        if not run.access.lock.forked:
            with suppress(OSError, PhmrunError):
                if run.status.state is State.RUNNING:
                    record.beat()
            if isinstance(error, SystemExit):
                set_outcome(run, State.INTERRUPTED, "the process was exited")
        raise
    finally:
        if not run.access.lock.forked:
            record.mirror.finish()


@contextmanager
def record(
    name: str,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    inputs: Sequence[str | os.PathLike[str]] = (),
    runs_dir: str | os.PathLike[str] | None = None,
    restart: bool = False,
) -> Iterator[Recording]:
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
    files = [os.fspath(path) for path in inputs]
    values = {"data": {"name": name}, "seed": seed, "inputs": files, **(settings or {})}
    resolved = resolve(ScriptExperiment, [Source("settings", plain(values))], None)
    if not is_leader():
        raise PhmrunError("only the first process of a training records a run", where="LOCAL_RANK")
    with recording(
        resolved.config,
        input_checksums(resolved.config),
        origin=resolved.origin,
        runs_dir=directory_of_runs(runs_dir).absolute(),  # the block may change the working directory
        plugins={},
        restart=(lambda _: None) if restart else None,
    ) as run:
        yield run
