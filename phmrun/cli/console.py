"""Output on the terminal: results on standard output, everything else on standard error."""

import json
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from phmrun.errors import PhmrunError
from phmrun.escaping import printable

_WIDTH_OF_A_FILE = 160
_LONG_TABLE = 500
"""Number of rows from which tables are printed without rich, which takes about 2 ms per row."""


_FOLDED, _NAME, _LABEL = 24, 60, 16
"""Characters below which columns, names in the first column, and labels are not folded on a terminal."""


class _StandardError(logging.Handler):
    """Handler that writes messages to the current standard error, each but once in succession."""

    last = ""  # message written last

    def emit(self, record: logging.LogRecord) -> None:
        """Print the formatted record, and flush; do nothing if the last message is the same."""
        text = self.format(record)
        if text != self.last:
            print(text, file=sys.stderr, flush=True)
        self.last = text


def set_verbosity(level: int) -> None:
    """Set the level of phmrun's loggers: WARNING, INFO or DEBUG of :mod:`logging`.

    Their messages are printed on standard error. A message that equals the one before is left out.
    """
    logger = logging.getLogger("phmrun")
    logger.setLevel(level)
    for handler in [handler for handler in logger.handlers if isinstance(handler, _StandardError)]:
        logger.removeHandler(handler)
    logger.addHandler(_StandardError())


class _HarmlessConsole(Console):
    """Console that removes terminal control sequences from texts."""

    def render_str(self, text: str, **more: Any) -> Text:
        """Render a text without control sequences."""
        return super().render_str(printable(text), **more)


def stdout() -> Console:
    """Return a new console for results.

    It is 160 columns wide if the output is a file or pipe.
    """
    return _HarmlessConsole(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)


def stderr() -> Console:
    """Return a new console for everything except results.

    It is 160 columns wide if the output is a file or pipe.
    """
    return _HarmlessConsole(stderr=True, width=None if sys.stderr.isatty() else _WIDTH_OF_A_FILE, highlight=False)


def print_json(value: Any) -> None:
    """Print a value as JSON on one line of standard output.

    Non-finite numbers become the texts "NaN", "Infinity"; values that JSON lacks are printed as text.
    """
    from phmrun.documents import plain

    print(json.dumps(plain(value, otherwise=str), ensure_ascii=False, allow_nan=False), flush=True)


def print_table(
    columns: Iterable[str],
    rows: Iterable[Iterable[Any]],
    *,
    title: str | None = None,
    drop: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> None:
    """Print a table on standard output.

    Columns with a number are right-aligned. None is –, truth values are yes and no. Tables of 500 rows or more, and all
    into a file or pipe, are printed without folding, with all columns. On a terminal, columns are folded to 16
    characters if they are in ``labels``, the first to 60 and others to 24. If that is not enough, those of ``drop`` are
    left out, in its order, then others from the right; a note on standard error names them.
    """
    heads = list(columns)
    filled = [[_cell(value) for value in row] for row in rows]
    right = [any(row[index][1] for row in filled) for index in range(len(heads))]
    console = stdout()
    if len(filled) >= _LONG_TABLE or not console.is_terminal:
        _print_long_table(heads, [[text for text, _ in row] for row in filled], right, title)
        return
    widths = [max(map(cell_len, [head, *(row[place][0] for row in filled)])) for place, head in enumerate(heads)]
    limits = [_LABEL if head in labels else _FOLDED if place else _NAME for place, head in enumerate(heads)]
    least = [min(pair) for pair in zip(widths, limits, strict=True)]
    kept = list(range(len(heads)))
    candidates = [heads.index(name) for name in drop if name in heads] + list(reversed(kept[1:]))
    while sum(least[place] + 2 for place in kept) - 2 > console.width and len(kept) > 1:
        kept.remove(next(place for place in candidates if place in kept))
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for place in kept:
        aligned: JustifyMethod = "right" if right[place] else "left"
        fixed = widths[place] if least[place] == widths[place] else None
        table.add_column(Text(heads[place]), justify=aligned, overflow="fold", width=fixed)
    for row in filled:
        table.add_row(*(Text(row[place][0]) for place in kept))
    console.print(table)
    if missing := [head for place, head in enumerate(heads) if head and place not in kept]:
        text = f"too narrow for: {', '.join(missing)} (widen the terminal, or redirect the output)"
        stderr().print(text, style="dim", markup=False, soft_wrap=True)


def print_line(text: str, *, style: str | None = None) -> None:
    """Print a text on standard output, without breaking its lines."""
    stdout().print(text, style=style, markup=False, soft_wrap=True)


def print_aside(text: str) -> None:
    """Print a text on standard error, without breaking its lines."""
    stderr().print(text, markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Print a note on standard output: broken between words on a terminal, one line elsewhere."""
    stdout().print(text, markup=False, highlight=False, soft_wrap=not stdout().is_terminal)


def _print_long_table(heads: list[str], rows: list[list[str]], right: list[bool], title: str | None) -> None:
    """Print a table with one line per row, without folding cells.

    ``right`` says for each column whether it is right-aligned.
    """
    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    columns = list(zip(widths, right, strict=True))
    lines = [title] if title else []
    for row in (heads, *rows):
        gaps = (" " * (width - cell_len(text)) for text, (width, _) in zip(row, columns, strict=True))
        cells = zip(row, gaps, right, strict=True)
        lines.append("  ".join(gap + text if justified else text + gap for text, gap, justified in cells).rstrip())
    print("\n".join(lines), flush=True)


def print_scores(metrics: Mapping[str, Any]) -> None:
    """Print the scores of a run with intervals, and beside each the same score of trivial systems, as one table.

    Numbered signatures and explanations follow it; warnings go to standard error, each once. If a trivial baseline is
    not beaten, :func:`phmrun.results.baselines.shortfall` is printed last.
    """
    from phmrun.ledger.wording import explained
    from phmrun.metric import baseline_of

    beside = {name: place for name in metrics if (place := baseline_of(name, metrics))}
    columns = list(dict.fromkeys(baseline for _, baseline in beside.values()))
    signatures: dict[str, list[str]] = {}
    numbers: dict[str, str] = {}
    texts: dict[tuple[str, str], str] = {}
    rows = []
    for name, metric in metrics.items():
        stored = metric if isinstance(metric, Mapping) else {"value": metric}
        signature = stored.get("signature")
        count = f"{stored['n']:,} {stored.get('unit', '')}" if "n" in stored else ""
        value = stored.get("value")
        shown = f"{value:z,.2f}" if count and isinstance(value, float) else _cell(value)[0]
        label = beside[name][1] if name in beside else ""
        if signature:
            label = label or numbers.setdefault(signature, str(len(numbers) + 1))
            signatures[signature] = list(dict.fromkeys([*signatures.get(signature, ()), label]))
        if name in beside:
            texts[beside[name]] = shown
        else:
            interval = "{:z,.2f} – {:z,.2f}".format(*stored["ci"]) if stored.get("ci") else ""
            rows.append((name, shown, interval, count, f"[{label}]" if signature else ""))
    filled = [[*row[:3], *(texts.get((row[0], baseline), "") for baseline in columns), *row[3:]] for row in rows]
    heads = ["metric", "value", "95 % interval", *columns, "over", ""]
    # These are texts, which print_table does not right-align.
    for place in (1, *range(3, 3 + len(columns))):
        width = max(cell_len(row[place]) for row in (heads, *filled))
        for row in (heads, *filled):
            row[place] = row[place].rjust(width)
    print_table(heads, filled, drop=("over", "95 % interval"))
    for signature, labels in signatures.items():
        print_line(f"[{', '.join(labels)}] {signature}")
    warnings = [w for score in metrics.values() if isinstance(score, Mapping) for w in score.get("warnings", ())]
    for warning in dict.fromkeys(warnings):
        print_aside(f"warning: {warning}")
    for line in explained([*metrics]):
        print_note(line)
    from phmrun.results.baselines import shortfall

    if (sentence := shortfall(metrics)) is not None:
        print_note(sentence)


def print_result(run_id: str, run_dir: Path, metrics: Mapping[str, Any], as_json: bool, state: str = "") -> None:
    """Print scores and, if it is named, the state of a run, or its id, directory and scores as JSON.

    An interrupted run has a hint.
    """
    if as_json:
        print_json({"run_id": run_id, "run_dir": run_dir, "metrics": metrics})
    elif metrics:
        print_scores(metrics)
    if state and not as_json:
        further = "; the same command continues it" if state == "interrupted" else ""
        print_line(f"run {run_id} is {state}{further}")


def confirm(question: str, hint: str) -> None:
    """Ask for confirmation on standard error; return if the answer is yes.

    Raises:
        PhmrunError: Standard input is not a terminal; it has the hint.
        Abort: The answer is no.
    """
    if not sys.stdin.isatty():
        raise PhmrunError(f"standard input is not a terminal, to confirm: {question}", hint=hint)
    typer.confirm(question, abort=True, err=True)


def print_error(error: PhmrunError) -> None:
    """Print an error on standard error: place, problem, valid values, hint.

    A panel on a terminal, plain lines elsewhere.
    """
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
    """Return the text of a cell, and whether it is a number.

    None is –, True yes, False no; numbers have separators of thousands. Floats have two decimals, or four significant
    digits if their magnitude is below 1. Control characters in other texts are escaped.
    """
    from phmrun.ledger.wording import number

    if isinstance(value, bool):
        return ("yes" if value else "no"), False
    return "–" if value is None else printable(number(value)), isinstance(value, int | float)
