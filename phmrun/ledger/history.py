"""The course of a run, one JSON object per line, appended as training goes on; validations in the unit of the tests."""

import errno
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from phmrun.documents import parse_json, restored, to_line
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import open_regular, replacing
from phmrun.metric import find_metric

Row = dict[str, Any]
_MOST_BYTES = 2**32
BEST = "validation/best"
"""The score of the best validation."""


def shown(name: str, value: float) -> float:
    """Return a figure of the history in the unit of the test scores: shares in percent, all else unchanged."""
    return 100 * value if is_share(name) else value


def in_shown_units(row: Mapping[str, Any]) -> Row:
    """A row for a mirror: each figure as people see it, in the unit of the tests' scores."""
    return {name: shown(name, value) if isinstance(value, int | float) else value for name, value in row.items()}


def is_share(name: str) -> bool:
    """True if a figure of the history is a share of 1: "val/accuracy"."""
    metric = find_metric(name)
    return metric is not None and metric.is_share and metric.name == name.rpartition("/")[2]


def best_validation(monitor: str, value: float, step: int) -> dict[str, Any]:
    """The score :data:`BEST` as it is written: a share in per cent, which its unit says."""
    return {"value": shown(monitor, value), "unit": "%" if is_share(monitor) else "", "step": step}


def in_test_units(metrics: dict[str, Any], config: Path) -> dict[str, Any]:
    """Scores as they are written now: until release 0.2 the best validation was a share, and had no unit.

    What was measured, a share or not, stands in the run's ``config.yaml``.
    """
    best = metrics.get(BEST)
    if not isinstance(best, dict) or "unit" in best or not isinstance(best.get("value"), int | float):
        return metrics
    try:
        found = re.search(r"^ +monitor: *(\w+)", config.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return metrics
    return metrics | {BEST: best | best_validation(found[1], best["value"], best.get("step", 0))} if found else metrics


@dataclass
class History:
    """The rows of ``history.jsonl``, which need not exist yet.

    A row has ``"step"`` (optimizer steps done), mostly ``"time"`` (seconds of training so far) and any figures, named
    ``"train/loss"``, ``"val/bleu"``. Only the process that holds the run's lock appends and cuts; anyone may read.
    ``before_writing`` is called before each write, and may refuse it.
    """

    path: Path
    before_writing: Callable[[], None] = lambda: None
    before_reading: Callable[[], None] = lambda: None

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row in one write, so that a kill leaves whole rows and at most one torn last line.

        Where the disk is full, an ``OSError`` says so, and the file is as it was before.
        """
        line = to_line(row).encode("utf-8")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+", buffering=0) as handle:
            self.before_writing()  # once it is open: who takes the run over puts another file in its place
            whole = _end_of_last_whole_line(handle)
            if whole < handle.seek(0, 2):
                handle.truncate(whole)
            try:
                complete = handle.write(line) == len(line)
            except OSError as error:
                error.filename = str(self.path)  # of writing, the system names no file
                raise
            if not complete:
                handle.truncate(whole)
                raise OSError(errno.ENOSPC, "the disk took only a part of a row", str(self.path))

    def read(self) -> list[Row]:
        """All whole rows as they were written, without a torn last line; a `PhmrunError` if another is no row."""
        return list(self.rows())

    def rows(self, figures: str = "") -> Iterator[Row]:
        """Whole rows in order, one in memory at a time.

        With ``figures``, a name or the beginning of names, only rows that hold such a figure are read and checked.
        """
        for _, row in self._lines(figures):
            if not figures or any(name.startswith(figures) for name in row):
                yield row

    def names(self) -> list[str]:
        """Names of all figures, in the order of their first appearance."""
        return [name for name in dict.fromkeys(name for row in self.rows() for name in row) if "/" in name]

    def last(self) -> Row | None:
        """The last whole row, if there is one."""
        rows = self.tail(1)
        return rows[-1] if rows else None

    def tail(self, number: int) -> list[Row]:
        """The last whole rows, read from the end of the file; an unreadable one among them is left to :meth:`rows`."""
        lines: list[bytes] = []
        with self._opened() as handle:
            end = _end_of_last_whole_line(handle) if handle else 0
            while handle and end and len(lines) <= number:  # one more: a last line that is no row does not count
                begin = _end_of_last_whole_line(handle, end - 1)
                handle.seek(begin)
                lines.append(handle.read(end - begin))
                end = begin
        rows = [row for row in map(_row_of, reversed(lines)) if row is not None]
        return rows[-number:]

    def count(self) -> int:
        """Number of whole rows; a `PhmrunError` if a line other than the last is no row, as far as its ends tell."""
        number, last = 0, b"{}\n"
        with self._opened() as handle:
            for line in handle or ():
                if not line.endswith(b"\n"):
                    break
                if not _looks_whole(last):
                    raise self._damaged(number)
                number, last = number + 1, line
        return number - (number > 0 and _row_of(last) is None)

    def cut(self, step: int) -> int:
        """Drops the rows after an optimizer step and a torn last line, atomically; returns how many whole ones.

        A run that continues from a checkpoint writes these rows anew.
        """
        if not self.path.exists():
            return 0
        dropped = 0
        # A new file, also where nothing changes: a process that was taken for dead may hold the old one.
        with replacing(self.path, self.before_writing) as temporary, temporary.open("wb") as kept:
            for line, row in self._lines():
                if row.get("step", 0) <= step:
                    kept.write(line)
                else:
                    dropped += 1
        return dropped

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO | None]:
        """The open file, ``None`` if there is none."""
        self.before_reading()
        try:
            opened = open_regular(self.path, most=_MOST_BYTES)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            what = f"the history cannot be read: {error.strerror}"
            raise PhmrunError(what, where=str(self.path), code=ExitCode.DATA) from error
        with opened:
            yield opened

    def _lines(self, containing: str = "") -> Iterator[tuple[bytes, Row]]:
        """Each whole line with its row; with ``containing``, lines without a figure of such a name are passed over."""
        mark = json.dumps(containing, ensure_ascii=False)[:-1].encode() if containing else b""
        doubtful = None
        with self._opened() as handle:
            for number, line in enumerate(handle or (), start=1):
                if not line.endswith(b"\n"):  # was being written when the process died
                    break
                if doubtful is not None:
                    raise self._damaged(doubtful)
                if mark not in line and b"\\" not in line and _looks_whole(line):
                    continue
                row = _row_of(line)
                if row is None:
                    doubtful = number  # an error unless it is the last
                else:
                    yield line, row

    def _damaged(self, number: int) -> PhmrunError:
        hint = "Remove the line, or start the run over with --restart."
        where = f"{self.path}:{number}"
        return PhmrunError("this line is not a JSON object", where=where, hint=hint, code=ExitCode.DATA)


def _looks_whole(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}\n")


def _row_of(line: bytes) -> Row | None:
    """The row of a line; ``None`` if it is none."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return None
    restored_row: Row = restored(row)
    return restored_row


def _end_of_last_whole_line(handle: Any, position: int | None = None) -> int:
    """Byte offset after the last line end before ``position``, searched backwards from there, or from the end."""
    position = handle.seek(0, 2) if position is None else position
    while position:
        begin = max(0, position - 4096)
        handle.seek(begin)
        place = handle.read(position - begin).rfind(b"\n")
        if place >= 0:
            return int(begin + place + 1)
        position = begin
    return 0
