"""Run directory of an experiment: configuration, status, scores and other records."""

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from phmrun.documents import flat, parse_json, parsed, plain
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import disk_errors, json_text, read_regular, read_text, write_text
from phmrun.ledger.directory import (
    BENCH,
    CONFIG,
    DATA,
    ENVIRONMENT,
    HISTORY,
    METRICS,
    PARAMETERS,
    STATUS,
    check_links,
    directory_of,
    directory_of_runs,
    find,
    is_run,
)
from phmrun.ledger.environment import DataRecord, now
from phmrun.ledger.history import History, Row
from phmrun.ledger.lock import LOCK, Holder, Lock, living_holder
from phmrun.ledger.manifest import MANIFEST, BrokenChain, Manifest
from phmrun.ledger.recorded_config import about_config, config_values
from phmrun.ledger.scores import FIRST, OTHER_FILE, PREFIX, first_items, score_value
from phmrun.ledger.status import State, Status, as_found, reason_of

T = TypeVar("T")
_ANEW = "To start over, give the command that trained the run with --restart."


class Run:
    """Run directory, for reading and, by the process that holds `lock`, for writing; creating the object reads nothing.

    Files are written atomically; ``history.jsonl`` and ``train.log`` are appended to. Reading needs no lock. An
    evaluation may add scores during training.

    Args:
        path: Run directory.
        lenient: Read each file once, and keep errors in `faults` instead of raising them, as listings need: a damaged
            status is false, and the content of another damaged file is empty. Default: ``False``.

    Raises:
        PhmrunError: (exit 3) Methods that read raise it for a damaged file, unless ``lenient``.
    """

    def __init__(self, path: Path, *, lenient: bool = False) -> None:
        self.path = path
        self.lenient = lenient
        # a path such as "." has no name
        self.id = path.resolve().name if path.name in ("", "..") else path.name
        self.config_path = path / CONFIG
        self.status_path = path / STATUS
        self.metrics_path = path / METRICS
        self.parameters_path = path / PARAMETERS
        self.data_path = path / DATA
        self.environment_path = path / ENVIRONMENT
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
        self._contents: dict[str, Any] = {}
        self._errors: dict[str, Exception] = {}

    @classmethod
    def create(cls, runs_dir: Path, run_id: str, config_yaml: str) -> "Run":
        """Create a run, or open the existing one of that id unchanged.

        A missing config or status is written, also into an existing directory. Missing parent directories are created.

        Args:
            runs_dir: Directory of runs.
            run_id: Run id.
            config_yaml: Resolved config, written if the run has none.

        Raises:
            PhmrunError: (exit 3) The directory cannot be created, or the id is not a valid name.
        """
        run = cls(directory_of(runs_dir, run_id))
        with disk_errors():
            run.path.mkdir(parents=True, exist_ok=True)
            if not run.config_path.exists():
                write_text(run.config_path, config_yaml)
            if not run.status_path.exists():
                status = Status(State.QUEUED, about=about_config(config_yaml)).signed()
                write_text(run.status_path, json_text(status.to_json()))
        return run

    @classmethod
    def find(cls, runs_dir: Path, reference: str, *, lenient: bool = False) -> "Run":
        """Find a run by reference; see :func:`phmrun.ledger.directory.find`.

        Raises:
            PhmrunError: (exit 2) No run matches, several do, or none has ended for "latest".
        """
        return cls(find(runs_dir, reference), lenient=lenient)

    @property
    def reference(self) -> str:
        """Argument that names the run in a command.

        It is the id in the default directory of runs (``PHMRUN_RUNS``, else ``runs``), otherwise the quoted path.
        """
        default = directory_of_runs().absolute()
        return self.id if self.path.absolute().parent == default else shlex.quote(str(self.path))

    @property
    def status(self) -> Status:
        """Effective status: a running run whose process died is interrupted.

        Raises:
            PhmrunError: (exit 3) The status is missing or damaged, or has a wrong checksum.
        """
        return self._content(STATUS, lambda: as_found(self._stored_status(), self.path), Status(State.DAMAGED))

    @property
    def state(self) -> str:
        """Name of the state; ``damaged`` if a lenient run's status or scores cannot be read."""
        return State.DAMAGED.value if self.damage else self.status.state.value

    def set_state(self, state: State, reason: str | None = None, **facts: Any) -> Status:
        """Write a new state, and return the status.

        Times, host and process id are set. ``started`` is set by the first RUNNING and then kept; ``ended`` is set by
        DONE, FAILED and INTERRUPTED, and cleared by others.

        Args:
            state: New state.
            reason: Cause of the state in a phrase; None clears the previous one.
            facts: ``step`` (optimizer steps) and ``seconds`` (of training, rounded to 1 ms) replace the previous
                values; other facts are added to ``about``, and replace those of the same name.

        Raises:
            PhmrunError: (exit 2) This object's lock was lost; (exit 3) the present status cannot be read.
        """
        before = self._stored_status()
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

    def begin(self, identity: str) -> None:
        """Check the run's manifest, and write one if the run is not done.

        The checkpoints of a run that is done are not checked. The manifest of a run that is not done then has its
        config alone.

        Args:
            identity: Canonical identity of the run.

        Raises:
            PhmrunError: (exit 3) A checksum differs, or a file is missing.
        """
        done = self.status.state is State.DONE
        self.manifest.check_all(without=("checkpoints",) if done else ())
        if not done:
            with self._writing():
                self.manifest.begin(identity)

    def fix(self, prepared: Path | None) -> None:
        """Enter prepared data and files that do not change into the manifest.

        ``prepared`` is the directory of the prepared data in the cache, ``None`` if they are not cached.

        Raises:
            PhmrunError: (exit 3) The prepared data have changed since the run began.
        """
        with self._writing():
            self.manifest.fix(prepared)

    def write(self, path: Path, text: str) -> None:
        """Write a file of the run atomically, with its checksum in the manifest.

        Raises:
            PhmrunError: (exit 2) This object's lock was lost. (exit 3) A symbolic link leads out of the run.
        """
        with self._writing():
            self._replace(path, text)

    def write_config(self, config_yaml: str) -> bool:
        """Write the resolved config if it differs from the stored one.

        Return True if it did.

        Raises:
            OSError: The run has no config.
        """
        if read_text(self.config_path) == config_yaml:
            return False
        self.write(self.config_path, config_yaml)
        return True

    def lock(self) -> Lock:
        """Return a new lock on the run, for a ``with`` block around all changes.

        It becomes the lock that writes check. Entering the block takes over the lock of a dead process, and raises a
        `PhmrunError` (exit 2) if a living process holds it.
        """
        self._lock = Lock(self.path / LOCK, f"the run {self.id}")
        return self._lock

    @property
    def may_write(self) -> bool:
        """True unless this object's lock was taken over or removed."""
        return self._lock is None or not self._lock.lost

    @property
    def forked(self) -> bool:
        """True in a forked copy of the process that holds this object's lock."""
        return self._lock is not None and self._lock.forked

    def require_lock(self) -> None:
        """Check that this object's lock was not lost.

        It passes if the object never took one.

        Raises:
            PhmrunError: (exit 2) It was taken over or removed, or this is a forked copy of its holder.
        """
        if self._lock is not None:
            self._lock.require()

    def metrics(self) -> dict[str, Any]:
        """Return the scores by name; empty before they are written."""
        return self._object(self.metrics_path)

    def update_metrics(self, name: str, value: Any) -> None:
        """Set one score: a number, or an object with ``value``, ``signature`` and further figures.

        See :meth:`add_metrics`.
        """
        self.add_metrics({name: value})

    def add_metrics(self, scores: Mapping[str, Any]) -> None:
        """Set scores by name ("test/bleu"); other processes may set others concurrently.

        It waits up to 20 s for another writer.
        """
        with self._writing():
            self._replace(self.metrics_path, json_text(plain({**self.metrics(), **scores})))

    def parameters(self) -> dict[str, Any]:
        """Return the parameter counts; empty before they are written."""
        return self._object(self.parameters_path)

    def write_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Write the parameter counts into ``parameters.json``.

        An integer ``total`` is also entered into the status, as "parameters", for listings.
        """
        self.write(self.parameters_path, json_text(plain(parameters)))
        total = parameters.get("total")
        if isinstance(total, int):
            before = self._stored_status()
            self._write_status(before, replace(before, about={**before.about, "parameters": total}))

    def data(self) -> DataRecord | None:
        """Return the record of the run's data; ``None`` before it is written.

        Raises:
            PhmrunError: (exit 3) The file is damaged.
        """
        content = self._object(self.data_path)
        try:
            return DataRecord.from_json(content) if content else None
        except ValueError as error:
            raise PhmrunError(str(error), where=str(self.data_path), code=ExitCode.DATA) from error

    def identity(self) -> dict[str, Any] | None:
        """Return the identity on record (:mod:`phmrun.config.identity`); ``None`` before the run has begun."""

        def read() -> dict[str, Any] | None:
            """Read the manifest."""
            record = self.manifest.read()
            return json.loads(record.identity) if record and record.identity else None

        return self._content(MANIFEST, read, None)

    def fingerprints(self) -> dict[str, str]:
        """Return the checksums of data and plug-ins in the run id, by name.

        They are those of ``data.json``; empty without that file.
        """
        record = self.data()
        return dict(record.fingerprints) if record else {}

    def write_data(self, record: DataRecord) -> None:
        """Write the record of the run's data."""
        self.write(self.data_path, json_text(record.to_json()))

    def environment(self) -> list[dict[str, Any]]:
        """Return the entries of ``environment.json``, oldest first; empty before they are written."""

        def is_list(content: dict[str, Any]) -> bool:
            """True if the segments are a list of objects."""
            segments = content.get("segments")
            return isinstance(segments, list) and all(isinstance(entry, dict) for entry in segments)

        segments: list[dict[str, Any]] = self._object(self.environment_path, is_list).get("segments", [])
        return segments

    def write_environment(self, segments: Sequence[Mapping[str, Any]]) -> None:
        """Replace the entries of ``environment.json``, oldest first."""
        self.write(self.environment_path, json_text(plain({"segments": list(segments)}, otherwise=str)))

    def bench(self) -> dict[str, Any]:
        """Return the latest measurements of ``phmrun bench`` by name; empty if there are none."""
        return self._object(self.path / BENCH, lambda content: all(isinstance(item, dict) for item in content.values()))

    def add_bench(self, measurements: Mapping[str, Mapping[str, Any]]) -> None:
        """Add measurements by name to ``bench.json``.

        Those of the same name are replaced, others kept.
        """
        self.write(self.path / BENCH, json_text(plain({**self.bench(), **measurements})))

    def samples(self) -> dict[str, Any]:
        """Return the sample outputs as ``columns`` and ``rows``; empty before they are written."""

        def is_table(content: dict[str, Any]) -> bool:
            """True if columns and each row are lists."""
            rows = content.get("rows")
            lists = isinstance(content.get("columns"), list) and isinstance(rows, list)
            return lists and all(isinstance(row, list) for row in rows or ())

        return self._object(self.samples_path, is_table)

    def write_samples(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Replace the sample inputs and outputs, a row each.

        The W&B mirror shows them.
        """
        self.write(self.samples_path, json_text(plain({"columns": list(columns), "rows": list(rows)})))

    def remove(self) -> None:
        """Delete the run directory.

        It is locked, and first renamed to a hidden name beside it. If it is a symbolic link, only the link is deleted.

        Raises:
            PhmrunError: (exit 2) The directory is not a run, or a living process holds it.
        """
        if not is_run(self.path):
            raise PhmrunError("this directory is not a run and is left alone", where=str(self.path))
        if self.path.is_symlink():  # its target is elsewhere on purpose
            with disk_errors():
                self.path.unlink()
            return
        with disk_errors(), self.lock():
            grave = self.path.with_name(f".removed-{self.id}-{os.getpid()}")
            self.path.rename(grave)
            shutil.rmtree(grave)

    def own_folder(self, name: str) -> Path:
        """Return the path of a folder of the run, to write into.

        It need not exist, and is not created. The run may come from others: a symbolic link in it must not choose where
        this machine writes.

        Raises:
            PhmrunError: (exit 3) Any entry of the run directory is a symbolic link out of it.
        """
        check_links(self.path)
        return self.path / name

    @property
    def config_text(self) -> str:
        """Text of the config.

        Raises:
            OSError: It cannot be read.
        """
        return self._content(CONFIG, lambda: read_regular(self.config_path).decode("utf-8"), "")

    @property
    def settings(self) -> dict[str, Any]:
        """Values of the config by dotted key."""
        return self._content("settings", lambda: flat(config_values(self.config_path)), {})

    def rows(self) -> list[Row]:
        """Return the rows of the history."""
        return self._content(HISTORY, self.history.read, [])

    @property
    def holder(self) -> Holder | None:
        """Living process that holds the run, or ``None``."""
        return living_holder(self.path / LOCK)

    @property
    def damage(self) -> str | None:
        """Reason why a lenient run's status or scores cannot be read; ``None`` if both can.

        It begins with the file's name, except for a failed checksum or an error of the system.
        """
        error = self._error
        if not isinstance(error, PhmrunError):
            return str(error) if error else None
        name = Path(error.where or "").name
        return error.what if isinstance(error, BrokenChain) or "." not in name else f"{name}: {error.what}"

    @property
    def broken(self) -> BrokenChain | None:
        """Error of a failed checksum of a lenient run's status or scores, or ``None``."""
        return error if isinstance(error := self._error, BrokenChain) else None

    @property
    def _error(self) -> Exception | None:
        """Error of a lenient run's status, else of its scores."""
        _ = self.status, self.metrics()
        return self._errors.get(STATUS) or self._errors.get(METRICS)

    @property
    def faults(self) -> list[str]:
        """Errors of a lenient run's damaged files, one line each; checkpoints, predictions and log are not read."""
        _ = self.status, self.config_text
        for read in (self.metrics, self.parameters, self.bench, self.rows, self.environment, self.samples):
            read()
        return [" ".join(str(error).split()) for error in self._errors.values()]

    def require_unbroken(self) -> None:
        """Check the run's identity and the checksums of its files.

        Checkpoints, predictions, vocabulary and history are left out: tables do not read them.

        Raises:
            PhmrunError: (exit 3) A checksum or the identity differs, or a file is missing; names the file.
        """
        if self.broken is not None:
            raise self.broken
        self.manifest.check_all(without=("checkpoints", "predictions", "vocabulary", HISTORY))

    def about(self, key: str) -> Any:
        """Return a fact of the status, such as task, data or seed; ``None`` if it is missing."""
        return self.status.about.get(key)

    @property
    def network(self) -> str | None:
        """Parts of the network that are not dense: ``phm n=8, output circulant``.

        ``dense`` for a dense network; ``None`` if unknown.
        """
        network = self.about("network") or self.about("layer")
        return str(network) if network else None

    @property
    def times(self) -> dict[str, Any]:
        """Measured times by name ("time/…"), each an object with seconds and a signature."""
        return {name: entry for name, entry in self.bench().items() if name.startswith(PREFIX)}

    def entry(self, name: str) -> Any:
        """Return the stored entry of a score, or of a time ("time/…").

        A score's name may end with "-first-500": its mean over the first 500 items, stored as its extra ``first_500``,
        or its value if there are no more items. The result is ``None`` if it is missing, or if the status is damaged.
        """
        if not self.status:
            return None
        if name.endswith(FIRST):
            return first_items(self.entry(name.removesuffix(FIRST)))
        return (self.times if name.startswith(PREFIX) else self.metrics()).get(name)

    def score(self, name: str) -> float | None:
        """Return the value of a score or a time; ``None`` if it is missing or not a number."""
        return score_value(self.entry(name))

    @property
    def main_score(self) -> str | None:
        """Name of the first score of the test set.

        If there is none, it is the first score of any other split. Order is that of the file. Scores of training,
        validation and other files do not count; ``None`` if there is no score.
        """
        scored = (name for name in self.metrics() if self.score(name) is not None)
        names = [name for name in scored if not name.startswith(("train/", "validation/", OTHER_FILE))]
        return next((name for name in names if name.startswith("test/")), names[0] if names else None)

    def to_json(self) -> dict[str, Any]:
        """Return the run as one flat JSON object.

        It has ``run_id``, ``run_dir``, the facts of ``about`` and the other fields of the status (neither if it cannot
        be read), ``state``, ``damage`` and ``metrics``.
        """
        status = self.status.to_json() if self.status else {}
        place = {"run_id": self.id, "run_dir": str(self.path)}
        facts = {**status.pop("about", {}), **status, "state": self.state, "damage": self.damage}
        return {**place, **facts, "metrics": self.metrics()}

    def _content(self, name: str, read: Callable[[], T], otherwise: T) -> T:
        """Return the result of ``read``.

        A lenient run reads once, and has ``otherwise`` after an error of reading or decoding, which is kept.
        """
        if not self.lenient:
            return read()
        if name not in self._contents:
            try:
                self._contents[name] = read()
            except (PhmrunError, OSError, UnicodeDecodeError) as error:
                self._contents[name], self._errors[name] = otherwise, error
        content: T = self._contents[name]
        return content

    def _object(self, path: Path, is_valid: Callable[[dict[str, Any]], bool] = lambda content: True) -> dict[str, Any]:
        """Return the JSON object in a file, which is empty if the file is missing and not in the manifest.

        Raises:
            PhmrunError: (exit 3) The file is damaged, is not an object, is not valid, or has a wrong checksum.
        """

        def read() -> dict[str, Any]:
            """Read and check the file."""
            try:
                text = read_regular(path)
                self.manifest.check(path, text)
                content = parsed(text)
            except FileNotFoundError:
                self.manifest.check(path)
                return {}
            except (OSError, ValueError) as error:
                unread = f"the file cannot be read: {reason_of(error)}"
                what = unread if isinstance(error, OSError) else f"this is not JSON: {error}"
                raise PhmrunError(what, where=str(path), code=ExitCode.DATA) from error
            if not isinstance(content, dict):
                raise PhmrunError("this is not a JSON object", where=str(path), code=ExitCode.DATA)
            if not is_valid(content):
                raise PhmrunError(f"this is no {path.name} of a run", where=str(path), code=ExitCode.DATA)
            return content

        return self._content(path.name, read, {})

    def _stored_status(self) -> Status:
        """Return the stored status.

        Raises:
            PhmrunError: (exit 3) The file is missing, damaged, or has a wrong checksum; (exit 2) the lock was lost.
        """
        try:
            content = read_regular(self.status_path)
            self.manifest.check(self.status_path, content)
            return Status.from_json(parse_json(content))
        except FileNotFoundError as error:
            self.require_lock()  # the run may have been moved
            what = f"{STATUS} is missing"
            raise PhmrunError(what, where=str(self.path), hint=_ANEW, code=ExitCode.DATA) from error
        except (OSError, ValueError, TypeError) as error:
            what = f"this is not a status: {reason_of(error)}"
            raise PhmrunError(what, where=str(self.status_path), hint=_ANEW, code=ExitCode.DATA) from error

    def _writing(self) -> Lock:
        """Return a new lock on manifest and concurrently written files.

        It is not yet taken. Taking it waits up to 20 s for its holder, then raises.

        Raises:
            PhmrunError: (exit 3) An entry of the run directory is a symbolic link out of it.
        """
        self.own_folder("")
        return Lock(self.path / ".metrics.lock", f"{METRICS} of the run {self.id}", wait=20.0)

    def _replace(self, path: Path, text: str) -> None:
        """Write a file and its checksum.

        The caller holds the lock of `_writing`.

        Raises:
            PhmrunError: (exit 2) The run's lock was lost.
        """
        self.require_lock()
        self.manifest.expect(path, text.encode("utf-8"))
        write_text(path, text, self.require_lock)

    def _write_status(self, before: Status, after: Status) -> Status:
        """Sign and write a status, and return it.

        If the run ends, its files are entered into the manifest; if it starts again, they are removed from it. Only
        then, or while it stays ended, the lock of `_writing` is taken.
        """
        self.require_lock()
        written, running = after.signed(), (State.RUNNING, State.QUEUED)
        text = json_text(written.to_json())
        with nullcontext() if before.state in running and after.state in running else self._writing():
            if after.state not in running:
                self.manifest.settle(text.encode("utf-8"))
            elif before.state not in running:
                self.manifest.begin()
            write_text(self.status_path, text, self.require_lock)
        return written
