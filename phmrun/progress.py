"""Progress of long work: a bar on a terminal, a line every few seconds in a log, on standard error.

Lines go through the logger, so they appear only if the command line or a program enables messages.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger(__name__)
note = _LOGGER.info
"""Log one line for the user; ``--quiet`` hides it."""

INTERVAL = 5.0
"""Seconds between two lines if standard error is not a terminal."""


@contextmanager
def progress(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Show progress on stderr; yield a function ``advance(amount)``.

    On a terminal it is a bar, removed at the end, none if ``total`` is 0; else a line every 5 seconds. The bar needs
    messages to be enabled.

    Args:
        label: Name of the work, such as "encoding train".
        total: Total amount in ``unit``; None if unknown.
        unit: Unit of the amount: "sentences", "bytes".
    """
    if total != 0 and sys.stderr.isatty() and _LOGGER.isEnabledFor(logging.INFO):
        from rich import progress as rich
        from rich.console import Console  # slow to import, and not needed in a log

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
        """Add an amount, and log a line.

        No line is logged within :data:`INTERVAL` seconds of the last.
        """
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
    """Show a status line on a terminal.

    It is for work without a measure of progress. Nothing in a log.
    """
    if not (sys.stderr.isatty() and _LOGGER.isEnabledFor(logging.INFO)):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
