"""A run: one experiment, one directory, which is the only source of truth about it and says what it is doing."""

import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from phmrun.documents import parse_json, parse_yaml, parsed, plain
from phmrun.errors import ExitCode, PhmrunError, nearest
from phmrun.files import disk_errors, is_name, json_text, read_regular, write_text
from phmrun.ledger.environment import DataRecord, now
from phmrun.ledger.history import History, in_test_units
from phmrun.ledger.lock import LOCK, Holder, Lock, living_holder, unlock
from phmrun.ledger.manifest import Manifest, changed_code

CONFIG, STATUS, METRICS, BENCH = "config.yaml", "status.json", "metrics.json", "bench.json"
DATA, ENVIRONMENT, HISTORY, PARAMETERS = "data.json", "environment.json", "history.jsonl", "parameters.json"
PLAIN = "dense"
LATEST = "latest"
RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,240}-[0-9a-f]{12}")
"""Grammar of run ids."""
_ANEW = "The command that trained the run begins it anew with --restart."


class State(StrEnum):
    """The states of a run.

    A run begins as ``queued``; a process that holds its lock makes it ``running`` and at the end ``done``, ``failed``
    (it cannot go on by itself: no memory, NaN loss) or ``interrupted`` (the same command continues it).
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Status:
    """The content of ``status.json``, as the process ``pid`` of the machine ``host`` wrote it.

    With the optimizer steps done, the seconds of training over all the times that the run was continued, when it first
    ran, was written and ended (ISO 8601 in UTC), and for listings task, data, layer, seed and parameters.
    """

    state: State = State.QUEUED
    reason: str | None = None
    step: int = 0
    started: str | None = None
    updated: str | None = None
    ended: str | None = None
    host: str | None = None
    pid: int | None = None
    seconds: float = 0.0
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Any) -> "Status":
        """The status that a JSON object holds, or a ``ValueError``; keys of a newer release are passed over."""
        if not isinstance(content, Mapping) or "state" not in content:
            raise ValueError("no state in it")
        known = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        status = cls(**{**known, "state": State(content["state"])})
        texts = dict.fromkeys(("reason", "started", "updated", "ended"), str | None)
        kinds: dict[str, Any] = {**texts, "step": int, "seconds": int | float, "about": dict}
        for name, kind in kinds.items():
            if not isinstance(getattr(status, name), kind):
                raise ValueError(f"{name} is {getattr(status, name)!r:.80}")
        if not (0 <= status.step < 2**63 and 0 <= status.seconds < 2**63):
            raise ValueError("step or seconds is out of range")
        json.dumps(asdict(status), ensure_ascii=False).encode("utf-8")  # a lone surrogate is no text
        return status

    def to_json(self) -> dict[str, Any]:
        """The status as a JSON object."""
        return {**asdict(self), "state": self.state.value}

    def signed(self) -> "Status":
        """The status as this process writes it now."""
        return replace(self, updated=now(), host=socket.gethostname(), pid=os.getpid())

    def write(self, path: Path, before_renaming: Callable[[], None] | None = None) -> "Status":
        """Writes it as this process's word of now, and returns what is written."""
        written = self.signed()
        write_text(path, json_text(written.to_json()), before_renaming)
        return written


def as_found(status: Status, path: Path) -> Status:
    """The status as it is in truth: a run that no living process holds is not running, whatever was written last."""
    if status.state is not State.RUNNING or living_holder(path / LOCK) is not None:
        return status
    return replace(status, state=State.INTERRUPTED, reason="its process ended without a word", ended=status.updated)


def about_config(config_yaml: str) -> dict[str, Any]:
    """Task, data, layer inside the blocks, all parts that are not dense, and seed, as far as a resolved config says."""
    try:
        config = parse_yaml(config_yaml, "config.yaml")
    except PhmrunError:
        config = None
    if not isinstance(config, Mapping):
        return {}
    data = config.get("data")
    found = {
        "task": config.get("task"),
        "data": data.get("name") if isinstance(data, Mapping) else data,
        "layer": layer_label(config.get("layer")),
        "network": network_label(config),
        "seed": config.get("seed"),
    }
    return {key: value for key, value in found.items() if value is not None}


def config_values(path: Path) -> dict[str, Any]:
    """What a run's ``config.yaml`` says, as plain values; a `PhmrunError` (exit 3) where it cannot be read."""
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError, PhmrunError) as error:
        why, where = (error.what, error.where) if isinstance(error, PhmrunError) else (error, str(path))
        raise PhmrunError(f"the configuration cannot be read: {why}", where=where, code=ExitCode.DATA) from error
    return values if isinstance(values, dict) else {}


def layer_label(layer: Any, *, words: bool = False) -> str | None:
    """A weight structure, as a section or a name, with its numbers: ``phm n=8``.

    With ``words`` all options are named, ``phm n=8 freeze=a``: of what somebody wrote, not of a resolved config.
    """
    if not isinstance(layer, Mapping):
        return str(layer) if layer else None
    named = [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in layer.items()
        if key != "structure" and (words or (isinstance(value, int | float) and not isinstance(value, bool)))
    ]
    return " ".join([str(layer.get("structure", PLAIN)), *named])


def network_label(config: Mapping[str, Any]) -> str | None:
    """The parts of a network that are not dense, ``phm n=8, output circulant``, or ``dense``; ``None``: not said."""
    labels = {part: layer_label(config.get(part)) for part in ("layer", "embedding", "output")}
    if not any(labels.values()):
        return None
    named = {part: label for part, label in labels.items() if label not in (None, PLAIN)}
    return ", ".join(f"{part} {label}".removeprefix("layer ") for part, label in named.items()) or PLAIN


class Run:
    """A handle on one run directory. Making one reads nothing.

    Every file is written whole or not at all; ``history.jsonl`` and ``train.log`` are appended to. Reading needs no
    lock; what changes the run is done by the process that holds `lock`, except for scores, which an evaluation may add
    while the training goes on. What is damaged raises a `PhmrunError` (exit code 3) where it is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # resolved, since a path such as "." has no name
        self.id = path.resolve().name
        self.config_path = path / CONFIG
        self.status_path = path / STATUS
        self.metrics_path = path / METRICS
        self.parameters_path = path / PARAMETERS
        self.data_path = path / DATA
        self.environment_path = path / ENVIRONMENT
        self.card_path = path / "README.md"
        self.log_path = path / "train.log"
        self.checkpoints = path / "checkpoints"
        self.vocabulary = path / "vocabulary"
        self.predictions = path / "predictions"
        self.samples_path = self.predictions / "samples.json"
        self.wandb_dir = path / "wandb"
        self.manifest = Manifest(path)
        history = path / HISTORY
        self.history = History(history, self.require_lock, before_reading=lambda: self.manifest.check(history))
        self._lock: Lock | None = None

    @classmethod
    def create(cls, runs_dir: Path, run_id: str, config_yaml: str) -> "Run":
        """The run of that name; made if it is not there yet, opened as it is otherwise."""
        run = cls(directory_of(runs_dir, run_id))
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            if not run.config_path.exists():
                write_text(run.config_path, config_yaml)
            if not run.status_path.exists():
                Status(about=about_config(config_yaml)).write(run.status_path)
        except OSError as error:
            what = f"the run directory cannot be made: {error.strerror}"
            hint = "Choose another place, such as by --runs-dir."
            raise PhmrunError(what, where=str(run.path), hint=hint, code=ExitCode.DATA) from error
        return run

    @classmethod
    def find(cls, runs_dir: Path, reference: str) -> "Run":
        """The run that a user means; a `PhmrunError` (exit code 2) where none fits, or more than one.

        The reference is a run id, the beginning of one or of its last twelve digits, the path of a run directory, or
        "latest" for the run that ended last, done or interrupted.
        """
        for path in (runs_dir / reference, Path(reference)):
            # An empty reference would name the directory of runs itself, and below, every run.
            if reference and _is_run(path):
                return cls(path)
        found = runs_dir.iterdir() if runs_dir.is_dir() else ()
        names = sorted(path.name for path in found if not path.name.startswith(".") and _is_run(path))
        if reference == LATEST and names:
            return cls(_latest([runs_dir / name for name in names]))
        fitting = [name for name in names if name.startswith(reference)]
        if not fitting and len(reference) >= 3:
            fitting = [name for name in names if name.rpartition("-")[2].startswith(reference)]
        if len(fitting) == 1 and reference:
            return cls(runs_dir / fitting[0])
        if fitting and reference:
            raise PhmrunError(f"{len(fitting)} runs begin with {reference!r}", valid=fitting[:10])
        close = " or ".join(nearest(reference, names))
        hint = f"Did you mean {close}?" if close else "`phmrun runs list` shows all runs of a directory."
        raise PhmrunError(f"there is no run {reference!r} in {runs_dir}", hint=hint)

    @property
    def status(self) -> Status:
        """What the run is doing. A run whose process died is shown as interrupted, whatever was written last."""
        return as_found(self._read_status(), self.path)

    def set_state(self, state: State, reason: str | None = None, **facts: Any) -> Status:
        """Writes what the run is doing now, and why, in a phrase, with times, host and process id.

        ``started`` stays that of the first time the run was running; ``step`` (optimizer steps) and ``seconds`` (of
        training) keep their values where none are given; other facts are for listings.
        """
        before = self._read_status()
        moment = now()
        after = replace(
            before,
            state=state,
            reason=reason,
            step=int(facts.pop("step", before.step)),
            seconds=round(float(facts.pop("seconds", before.seconds)), 3),
            started=before.started or (moment if state is State.RUNNING else None),
            ended=moment if state in (State.DONE, State.FAILED, State.INTERRUPTED) else None,
            about={**before.about, **plain(facts)},
        )
        return self._write_status(before, after)

    def begin(self, identity: str, code: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> list[str]:
        """Check the run's chain, and give a run that is not done a manifest if it has none.

        Args:
            identity: Canonical identity that the run id is made of.
            code: Code that training uses.

        Returns:
            Code that was other when the run began.

        Raises:
            PhmrunError: (exit 3) A file is not as the run has written it.
        """
        done = self.status.state is State.DONE
        self.manifest.check_all(without=("checkpoints",) if done else ())
        record = self.manifest.read()
        if not done:
            with self._writing():
                self.manifest.begin(identity, code)
        return changed_code(record.code, code) if record else []

    def fix(self, prepared: Path | None) -> None:
        """Enter into the manifest the files that training does not change from here on, and the prepared data."""
        with self._writing():
            self.manifest.fix(prepared)

    def write(self, path: Path, text: str) -> None:
        """Write a file of the run, whole or not at all, and its checksum into the manifest."""
        with self._writing():
            self._replace(path, text)

    def write_config(self, config_yaml: str) -> bool:
        """Writes the resolved config, unless it is there as it is; returns whether it was another."""
        if self.config_path.read_text(encoding="utf-8") == config_yaml:
            return False
        self.write(self.config_path, config_yaml)
        return True

    def lock(self) -> Lock:
        """The run's lock, to be held in a ``with`` block by the process that changes the run.

        A living process that holds it raises a `PhmrunError` (exit code 2); the lock of a dead one is taken over.
        """
        self._lock = Lock(self.path / LOCK, f"the run {self.id}")
        return self._lock

    @property
    def may_write(self) -> bool:
        """Whether no other process has taken over the lock that this object has held, if it has held one."""
        return self._lock is None or not self._lock.lost

    def unlock(self) -> Holder | None:
        """Removes the lock of a process that is gone, on whatever machine; returns who held it: `lock.unlock`."""
        return unlock(self.path / LOCK, f"the run {self.id}")

    def require_lock(self) -> None:
        """Refuses to write any more once this object's lock, if it has held one, was taken over by another process."""
        if self._lock is not None:
            self._lock.require()

    def metrics(self) -> dict[str, Any]:
        """The scores by name."""
        return in_test_units(self._read_object(self.metrics_path), self.config_path)

    def update_metrics(self, name: str, value: Any) -> None:
        """Sets one score, ``test/bleu``, and leaves the others as they are, also if another process sets one meanwhile.

        It is a number, or an object with ``value``, ``signature`` and what else belongs to it.
        """
        with self._writing():
            scores = self.metrics()
            scores[name] = value
            self._replace(self.metrics_path, json_text(plain(scores)))

    def parameters(self) -> dict[str, Any]:
        """The parameter counts; empty before they are written."""
        return self._read_object(self.parameters_path)

    def write_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Writes the parameter counts. A number named ``total`` is also shown in listings."""
        self.write(self.parameters_path, json_text(plain(parameters)))
        total = parameters.get("total")
        if isinstance(total, int):
            before = self._read_status()
            self._write_status(before, replace(before, about={**before.about, "parameters": total}))

    def data(self) -> DataRecord | None:
        """What the run was trained and tested on; ``None`` where an older version has not written it."""
        content = self._read_object(self.data_path)
        try:
            return DataRecord.from_json(content) if content else None
        except ValueError as error:
            raise PhmrunError(str(error), where=str(self.data_path), code=ExitCode.DATA) from error

    def fingerprints(self) -> dict[str, str]:
        """The checksums of data and plug-ins that are part of the run's name; none of runs of early releases."""
        record = self.data()
        marks = record.fingerprints if record else self.parameters().get("fingerprints", {})  # as release 0.1 kept them
        return {str(key): str(value) for key, value in marks.items()} if isinstance(marks, Mapping) else {}

    def write_data(self, record: DataRecord) -> None:
        """Writes what the run is trained and tested on."""
        self.write(self.data_path, json_text(record.to_json()))

    def environment(self) -> list[dict[str, Any]]:
        """The entries of ``environment.json``, oldest first; none where an older version has not written it."""
        segments = self._read_object(self.environment_path).get("segments", [])
        if not isinstance(segments, list) or not all(isinstance(entry, dict) for entry in segments):
            raise PhmrunError("this is no list of segments", where=str(self.environment_path), code=ExitCode.DATA)
        return segments

    def write_environment(self, segments: Sequence[Mapping[str, Any]]) -> None:
        """Writes the entries of ``environment.json``, oldest first."""
        self.write(self.environment_path, json_text(plain({"segments": list(segments)}, otherwise=str)))

    def bench(self) -> dict[str, Any]:
        """What ``phmrun bench`` measured last, by phase of ``run`` and by name of a time; empty before it did."""
        found = self._read_object(self.path / BENCH)
        if not all(isinstance(each, dict) for each in found.values()):
            raise PhmrunError("this is no record of measurements", where=str(self.path / BENCH), code=ExitCode.DATA)
        return found

    def add_bench(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes what was measured of some phases, or some times; others keep their record."""
        self.write(self.path / BENCH, json_text(plain({**self.bench(), **found})))

    def samples(self) -> dict[str, Any]:
        """The sample outputs as ``columns`` and ``rows``; empty before they are written."""
        return self._read_object(self.samples_path)

    def write_samples(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Writes a few inputs with what the model made of them, a row each, for the card and the W&B mirror."""
        self.write(self.samples_path, json_text(plain({"columns": list(columns), "rows": list(rows)})))

    def remove(self) -> None:
        """Delete the run directory at once, unless it is none or a living process holds it; of a link, the link."""
        if not _is_run(self.path):
            raise PhmrunError("this directory is not a run and is left alone", where=str(self.path))
        if self.path.is_symlink():  # the link alone goes: what it leads to is elsewhere on purpose
            with disk_errors():
                self.path.unlink()
            return
        with disk_errors(), self.lock():
            grave = self.path.with_name(f".removed-{self.id}-{os.getpid()}")
            self.path.rename(grave)
            shutil.rmtree(grave)

    def _writing(self) -> Lock:
        """Lock on the files that training and evaluations may write at the same time, and on the manifest."""
        return Lock(self.path / ".metrics.lock", f"{METRICS} of the run {self.id}", wait=20.0)

    def _replace(self, path: Path, text: str) -> None:
        self.require_lock()
        self.manifest.expect(path, text.encode("utf-8"))
        write_text(path, text, self.require_lock)

    def _write_status(self, before: Status, after: Status) -> Status:
        """Write a status, and the manifest if the state has changed."""
        written, running = after.signed(), (State.RUNNING, State.QUEUED)
        text = json_text(written.to_json())
        with nullcontext() if before.state in running and after.state in running else self._writing():
            if after.state not in running:
                self.manifest.settle(text.encode("utf-8"))
            elif before.state not in running:
                self.manifest.open()
            write_text(self.status_path, text, self.require_lock)
        return written

    def _read_status(self) -> Status:
        try:
            content = read_regular(self.status_path)
            self.manifest.check(self.status_path, content)
            return Status.from_json(parse_json(content))
        except FileNotFoundError as error:
            raise PhmrunError(f"{STATUS} is missing", where=str(self.path), hint=_ANEW, code=ExitCode.DATA) from error
        except (OSError, ValueError, TypeError) as error:
            what = f"this is no status: {reason_of(error)}"
            raise PhmrunError(what, where=str(self.status_path), hint=_ANEW, code=ExitCode.DATA) from error

    def _read_object(self, path: Path) -> dict[str, Any]:
        try:
            read = read_regular(path)
            self.manifest.check(path, read)
            content = parsed(read)
        except FileNotFoundError:
            self.manifest.check(path)
            return {}
        except (OSError, ValueError) as error:
            unread = f"the file cannot be read: {reason_of(error)}"
            what = unread if isinstance(error, OSError) else f"this is not JSON: {error}"
            raise PhmrunError(what, where=str(path), code=ExitCode.DATA) from error
        if not isinstance(content, dict):
            raise PhmrunError("this is not a JSON object", where=str(path), code=ExitCode.DATA)
        return content


def directory_of(runs_dir: Path, run_id: str) -> Path:
    """Where an experiment's run lies: the directory of its name, or of a former name with the same twelve digits.

    Until release 0.2 the name of a run did not say what embedding and output are made of. A name that leads out of
    ``runs_dir`` raises a `PhmrunError` (exit 3).
    """
    if not is_name(run_id):
        raise PhmrunError(f"{run_id!r:.80} is no name of a run", where=str(runs_dir), code=ExitCode.DATA)
    path = runs_dir / run_id
    if not path.exists() and ("-embedding-" in run_id or "-output-" in run_id):
        digits = run_id.rpartition("-")[2]
        former = (other for other in sorted(runs_dir.glob(f"*-{digits}")) if _is_run(other))
        return next(former, path)
    return path


def _is_run(path: Path) -> bool:
    """Whether a directory is a run: it has a status, or at least a run's config under a run's name."""
    named = re.compile(r".+-[0-9a-f]{12}").fullmatch
    return (path / STATUS).is_file() or ((path / CONFIG).is_file() and named(path.resolve().name) is not None)


def _latest(paths: Sequence[Path]) -> Path:
    """Run that ended last, done or interrupted, among run directories."""
    statuses = [(path, status) for path in paths if (status := _effective_status(path)) is not None]
    ended = [pair for pair in statuses if pair[1].state in (State.DONE, State.INTERRUPTED)]
    if not ended:
        names = [f"{path.name} ({status.state})" for path, status in statuses]
        raise PhmrunError("no run is done or interrupted yet", where=LATEST, valid=names[:10])
    # times in the status have whole seconds
    return max(ended, key=lambda pair: (pair[1].ended or "", (pair[0] / STATUS).stat().st_mtime))[0]


def newer_running(run: Run) -> list[str]:
    """Names of the running runs beside a run that are active since it ended."""
    ended = run.status.ended or ""
    statuses = {path.name: _effective_status(path) for path in sorted(run.path.resolve().parent.iterdir())}
    return [
        name
        for name, status in statuses.items()
        if status is not None and status.state is State.RUNNING and (status.updated or "") >= ended
    ]


def _effective_status(path: Path) -> Status | None:
    """Effective status of a run directory; None if it is missing or damaged."""
    try:
        return as_found(Status.from_json(parse_json(read_regular(path / STATUS))), path)
    except (OSError, ValueError, TypeError, PhmrunError):
        return None


def reason_of(error: Exception) -> str:
    """Why a file could not be read, in a phrase."""
    return error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())[:200]
