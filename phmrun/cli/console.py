"""What the user sees: results on standard output, everything else on standard error."""

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from phmrun.errors import PhmrunError
from phmrun.escaping import printable
from phmrun.progress import waiting

_WIDTH_OF_A_FILE = 160
_LONG_TABLE = 500
"""Rows from which a table is written line by line: rich measures and folds each cell, two milliseconds a row."""


class Verbosity(IntEnum):
    """How much is said besides results: ``-q``, nothing, ``-v``."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


class _StandardError(logging.Handler):
    """Writes the bare message to whatever standard error is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def set_verbosity(verbosity: Verbosity) -> None:
    """Shows messages of phmrun's own loggers on standard error, from the level that the user asked for."""
    levels = {Verbosity.QUIET: logging.WARNING, Verbosity.NORMAL: logging.INFO, Verbosity.VERBOSE: logging.DEBUG}
    logger = logging.getLogger("phmrun")
    logger.setLevel(levels[verbosity])
    if not any(isinstance(handler, _StandardError) for handler in logger.handlers):
        logger.addHandler(_StandardError())


def verbosity() -> Verbosity:
    """What the user asked for on the command line."""
    level = logging.getLogger("phmrun").level
    return {logging.WARNING: Verbosity.QUIET, logging.DEBUG: Verbosity.VERBOSE}.get(level, Verbosity.NORMAL)


class _HarmlessConsole(Console):
    """Prints text from data and names without what would steer the terminal."""

    def render_str(self, text: str, **more: Any) -> Text:
        return super().render_str(printable(text), **more)


def stdout() -> Console:
    """The console for results; wide where it is a file or a pipe, so that tables keep their rows."""
    return _HarmlessConsole(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)


def stderr() -> Console:
    """The console for everything else."""
    return _HarmlessConsole(stderr=True, width=None if sys.stderr.isatty() else _WIDTH_OF_A_FILE, highlight=False)


def print_json(value: Any) -> None:
    """One JSON value on one line of standard output; what is no finite number stands as text: "NaN", "Infinity"."""
    from phmrun.documents import plain

    print(json.dumps(plain(value, otherwise=str), ensure_ascii=False, allow_nan=False), flush=True)


def print_table(columns: Iterable[str], rows: Iterable[Iterable[Any]], *, title: str | None = None) -> None:
    """A table of texts and numbers on standard output; numbers stand at the right."""
    heads = list(columns)
    filled = [[_cell(value) for value in row] for row in rows]
    right = [any(row[index][1] for row in filled) for index in range(len(heads))]
    if len(filled) >= _LONG_TABLE:
        _print_long_table(heads, [[text for text, _ in row] for row in filled], right, title)
        return
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column, justified in zip(heads, right, strict=True):
        table.add_column(Text(column), justify="right" if justified else "left", overflow="fold")
    for row in filled:
        table.add_row(*(Text(text) for text, _ in row))
    stdout().print(table)


def _print_long_table(heads: list[str], rows: list[list[str]], right: list[bool], title: str | None) -> None:
    """The same without folding, a line a row."""
    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    columns = list(zip(widths, right, strict=True))
    lines = [title] if title else []
    for row in (heads, *rows):
        gaps = (" " * (width - cell_len(text)) for text, (width, _) in zip(row, columns, strict=True))
        cells = zip(row, gaps, right, strict=True)
        lines.append("  ".join(gap + text if justified else text + gap for text, gap, justified in cells).rstrip())
    print("\n".join(lines), flush=True)


@contextmanager
def preparing() -> Iterator[None]:
    """Says from the first moment on that something happens, while torch is imported and the settings are read."""
    if verbosity() is not Verbosity.QUIET and not stderr().is_terminal:
        print("preparing", file=sys.stderr, flush=True)
    with waiting("preparing"):
        yield


def print_scores(metrics: Mapping[str, Any]) -> None:
    """The scores of a run with their intervals; signatures below the table, each once, under the number beside it."""
    from phmrun.ledger.wording import explained

    rows, signatures = [], dict[str, int]()
    for name, metric in metrics.items():
        stored = metric if isinstance(metric, Mapping) else {"value": metric}
        signature = stored.get("signature")
        number = signatures.setdefault(signature, len(signatures) + 1) if signature else None
        interval = "{:z.2f} – {:z.2f}".format(*stored["ci"]) if stored.get("ci") else ""
        count = f"{stored['n']:,} {stored.get('unit', '')}" if "n" in stored else ""
        value = stored.get("value")
        shown = f"{value:z,.2f}" if count and isinstance(value, float) else _cell(value)[0]
        rows.append((name, shown, interval, count, f"[{number}]" if number else ""))
    # print_table sets only numbers at the right, and these are texts.
    width = max((len(row[1]) for row in rows), default=0)
    aligned = [(name, shown.rjust(width), *more) for name, shown, *more in rows]
    print_table(("metric", "value".rjust(width), "95 % interval", "over", ""), aligned)
    for signature, number in signatures.items():
        stdout().print(f"[{number}] {signature}", markup=False, soft_wrap=True)
    told = [w for each in metrics.values() if isinstance(each, Mapping) for w in each.get("warnings", ())]
    for warning in dict.fromkeys(told):
        stderr().print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
    for line in explained([*metrics]):
        stdout().print(line, markup=False, soft_wrap=True)
    from phmrun.results.baselines import shortfall

    if (sentence := shortfall(metrics)) is not None:
        stdout().print(sentence, markup=False, highlight=False, soft_wrap=True)


def print_outcome(run_id: str, state: str) -> None:
    """What a run is after a training, and what continues it."""
    further = "; the same command continues it" if state == "interrupted" else ""
    stdout().print(f"run {run_id} is {state}{further}", markup=False, soft_wrap=True)


def print_error(error: PhmrunError) -> None:
    """What is wrong, where, what would be valid, and what to do: a panel on a terminal, plain lines elsewhere."""
    console = stderr()
    if not console.is_terminal:
        print(f"phmrun: error: {printable(str(error))}", file=sys.stderr, flush=True)
        return
    body = Text()
    if error.where:
        body.append(f"{printable(error.where)}\n", style="cyan")
    body.append(printable(error.what))
    if error.valid:
        body.append("\nvalid: ", style="dim")
        body.append(printable(", ".join(error.valid)))
    if error.hint:
        body.append(f"\n{printable(error.hint)}", style="green")
    console.print(Panel(body, title="Error", title_align="left", border_style="red"))


def _cell(value: Any) -> tuple[str, bool]:
    """The text of a cell, and whether it is a number."""
    if value is None:
        return "–", False
    if isinstance(value, bool):
        return ("yes" if value else "no"), False
    if isinstance(value, int):
        return f"{value:,}", True
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}", True
    return printable(str(value)), False
