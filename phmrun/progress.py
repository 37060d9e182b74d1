"""Progress of long work: a bar on a terminal, a line every few seconds in a log. All of it goes to stderr.

Lines go through the logger, so nothing is shown unless the command line, or a program, asks for messages.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger(__name__)
note = _LOGGER.info
"""Says one line that the user should see, unless quiet was asked for."""

INTERVAL = 5.0
"""Seconds between two lines where stderr is no terminal."""


@contextmanager
def progress(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Yields ``advance(amount)``; shows how far the work is, and clears away on the end.

    Args:
        label: What is being done: "encoding train".
        total: The whole of it in ``unit``, or None where that is not known.
        unit: What is counted: "sentences", "bytes".
    """
    if sys.stderr.isatty() and _LOGGER.isEnabledFor(logging.INFO):
        from rich import progress as rich
        from rich.console import Console  # which takes its time to import, and is not needed in a log

        count = rich.DownloadColumn() if unit == "bytes" else rich.MofNCompleteColumn()
        what, share, left = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TimeRemainingColumn()
        with rich.Progress(
            what, share, count, rich.TextColumn(unit), left, console=Console(stderr=True), transient=True
        ) as bar:
            task = bar.add_task(label, total=total)
            yield lambda amount: bar.advance(task, amount)
        return
    began = last = time.monotonic()
    done = 0

    def advance(amount: int) -> None:
        nonlocal done, last
        done += amount
        now = time.monotonic()
        if now - last >= INTERVAL:
            last = now
            share = f" of {total:,} ({done / total:.0%})" if total else ""
            pace = done / (now - began)
            note(f"{label}: {done:,}{share} {unit}" + (f", {pace:,.0f}/s" if pace >= 1 else ""))

    yield advance


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says on a terminal what is being done that has no measure; nothing in a log."""
    if not (sys.stderr.isatty() and _LOGGER.isEnabledFor(logging.INFO)):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
