"""The course of a run, one JSON object per line, appended as training goes on; validations in the unit of the tests."""

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json, restored, to_line
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular, replacing
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
        """All whole rows as they were written, without a torn last line; a `PhmrunError` where another is none."""
        return [row for _, row in self._lines()]

    def last(self) -> Row | None:
        """The last whole row, if there is one."""
        rows = self.read()
        return rows[-1] if rows else None

    def cut(self, step: int) -> int:
        """Drops the rows after an optimizer step and a torn last line, atomically; returns how many whole ones.

        A run that continues from a checkpoint writes these rows anew.
        """
        if not self.path.exists():
            return 0
        rows = list(self._lines())
        kept = [line for line, row in rows if row.get("step", 0) <= step]
        with replacing(self.path, self.before_writing) as temporary:  # a new file, also where nothing changes
            temporary.write_bytes(b"".join(kept))
        return len(rows) - len(kept)

    def _lines(self) -> Iterator[tuple[bytes, Row]]:
        """Each whole line with its row."""
        self.before_reading()
        try:
            lines = read_regular(self.path, most=_MOST_BYTES).split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            what = f"the history cannot be read: {error.strerror}"
            raise PhmrunError(what, where=str(self.path), code=ExitCode.DATA) from error
        whole = lines[:-1]  # what follows the last line end was being written when the process died
        for number, line in enumerate(whole, start=1):
            try:
                row = parse_json(line)
            except ValueError:
                row = None
            if isinstance(row, dict) and type(row.get("step")) is int:
                yield line + b"\n", restored(row)
            elif number < len(whole):
                hint = "Remove the line, or start the run over with --restart."
                where = f"{self.path}:{number}"
                raise PhmrunError("this line is not a JSON object", where=where, hint=hint, code=ExitCode.DATA)


def _end_of_last_whole_line(handle: Any) -> int:
    """The byte offset after the last line end, searched backwards so that appending does not read the whole file."""
    position = handle.seek(0, 2)
    while position:
        begin = max(0, position - 4096)
        handle.seek(begin)
        found = handle.read(position - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        position = begin
    return 0
