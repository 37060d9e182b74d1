"""Training history of a run: one JSON object per line, appended during training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from phmrun.documents import parse_json, restored, to_line
from phmrun.errors import data_error
from phmrun.files import read_regular, replacing
from phmrun.metric import find_metric

Row = dict[str, Any]
_MOST_BYTES = 2**32
BEST = "validation/best"
"""Name of the best validation's score."""


def shown(name: str, value: float) -> float:
    """Return a figure in the unit of the test scores.

    A share (:func:`is_share`) is multiplied by 100; other figures are returned unchanged.
    """
    return 100 * value if is_share(name) else value


def in_shown_units(row: Mapping[str, Any]) -> Row:
    """Return a copy of a row with shares in percent.

    Values that are not numbers are unchanged.
    """
    return {name: shown(name, value) if isinstance(value, int | float) else value for name, value in row.items()}


def is_share(name: str) -> bool:
    """True if a figure such as "val/accuracy" is a share of 1.

    The part after the last slash must be the full name of a registered metric whose values are shares.
    """
    metric = find_metric(name)
    return metric is not None and metric.is_share and metric.name == name.rpartition("/")[2]


def best_validation(monitor: str, value: float, step: int) -> dict[str, Any]:
    """Return the score "validation/best" of a monitored metric.

    Keys: ``value`` (shares in percent), ``unit`` ("%" for shares, else empty), ``step``.
    """
    return {"value": shown(monitor, value), "unit": "%" if is_share(monitor) else "", "step": step}


@dataclass
class History:
    """Rows of ``history.jsonl``; the file may be missing.

    A row has ``"step"`` (optimizer steps so far), usually ``"time"`` (seconds of training so far), and figures such as
    ``"train/loss"`` or ``"val/bleu"``. Only the process that holds the run's lock may call `append` and `cut`.

    Attributes:
        path: Path of the file.
        before_writing: Called before each write; may raise to prevent it.
        before_reading: Called before each reading; may raise to prevent it.
        held: Rows that are read in place of the file's.
    """

    path: Path
    before_writing: Callable[[], None] = lambda: None
    before_reading: Callable[[], None] = lambda: None
    held: Sequence[Row] | None = None

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a row.

        The file and its directory are created if missing. A torn last line is removed first. A kill leaves whole rows
        and at most one torn last line.

        Raises:
            OSError: The row cannot be written, for example on a full disk; the file's whole rows are unchanged.
        """
        line = to_line(row).encode("utf-8")
        self.before_writing()  # before a directory that was moved is created again
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.path.open("ab+") as handle:
                self.before_writing()  # after opening: a process that takes the run over replaces the file
                handle.truncate(_end_of_last_whole_line(handle))
                handle.write(line)
        except OSError as error:
            error.filename = str(self.path)  # errors of writing name no file
            raise

    def read(self) -> list[Row]:
        """Return all whole rows.

        A torn last line is left out, as is a last line that is not a row.

        Raises:
            PhmrunError: (exit 3) A line other than the last is not a row.
        """
        return list(self.rows())

    def rows(self, figures: str = "") -> Iterator[Row]:
        """Yield whole rows in order.

        A torn last line is left out, as is a last line that is not a row.

        Args:
            figures: Name, or beginning of names; only rows with such a figure are yielded. Default: all.

        Raises:
            PhmrunError: (exit 3) A line other than the last is not a row.
        """
        for row in (row for _, row in self._lines()) if self.held is None else self.held:
            if not figures or any(name.startswith(figures) for name in row):
                yield row

    def names(self) -> list[str]:
        """Return the names of all figures of the history.

        Figures are keys with a slash, in order of first appearance.
        """
        return [name for name in dict.fromkeys(name for row in self.rows() for name in row) if "/" in name]

    def cut(self, step: int) -> int:
        """Remove the rows of steps after ``step``, atomically.

        A torn last line is removed, too. A run that continues from a checkpoint writes these rows again. The file is
        replaced even if nothing is removed.

        Returns:
            Number of removed whole rows; 0 if the file is missing.

        Raises:
            PhmrunError: (exit 3) A line other than the last is not a row.
        """
        if not self.path.exists():
            return 0
        lines = list(self._lines())
        kept = [line for line, row in lines if row["step"] <= step]
        # A new file even if nothing changes: a process that was presumed dead may still hold the old one.
        with replacing(self.path, self.before_writing) as temporary:
            temporary.write_bytes(b"".join(kept))
        return len(lines) - len(kept)

    def _lines(self) -> Iterator[tuple[bytes, Row]]:
        """Yield whole lines with their rows.

        A torn last line, and a last line that is not a row, are left out.

        Raises:
            PhmrunError: (exit 3) A line other than the last is not a row, or the file cannot be read.
        """
        self.before_reading()
        try:
            *lines, _ = read_regular(self.path, most=_MOST_BYTES).split(b"\n")  # what follows the last one is torn
        except FileNotFoundError:
            return
        except OSError as error:
            raise data_error(f"the history cannot be read: {error.strerror}", self.path) from error
        for number, line in enumerate(lines, start=1):
            if (row := _row_of(line)) is not None:
                yield line + b"\n", row
            elif number < len(lines):
                hint, where = "Remove the line, or start the run over with --restart.", f"{self.path}:{number}"
                raise data_error("this line is not a JSON object", where, hint)


def _row_of(line: bytes) -> Row | None:
    """Parse a line, with NaN and infinities restored.

    The result is ``None`` if it is not a JSON object with an integer ``"step"``.
    """
    try:
        row = parse_json(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        return None
    restored_row: Row = restored(row)
    return restored_row


def _end_of_last_whole_line(handle: BinaryIO) -> int:
    """Return the byte offset after the last line break, 0 if there is none; moves the handle."""
    size = handle.seek(0, 2)
    handle.seek(max(0, size - 1))
    if not size or handle.read(1) == b"\n":
        return size
    handle.seek(0)
    return handle.read().rfind(b"\n") + 1
