"""Progress of a sweep on stderr: one line per event, and a summary that is live on a terminal."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from phmrun.escaping import printable
from phmrun.grouping import grouped_by
from phmrun.ledger.history import BEST
from phmrun.ledger.wording import duration, number
from phmrun.progress import note
from phmrun.sweeps.cell_status import LEFT, NOT_BEGUN, CellState, CellStatus, Estimate, look, steps_done, tally
from phmrun.sweeps.scheduler import Event

SUMMARY_EVERY = 30.0  # seconds between two summaries without a terminal
REFRESH = 1.0  # seconds between two summaries on a terminal


class Tracker:
    """Progress of a sweep, updated by events.

    Args:
        statuses: Cells at the beginning.
        runs_dir: Directory of runs.
        slots: Number of runs at a time.
        later: Further runs of the sweep, for the time left, if the cells are trials of tuning.
    """

    def __init__(
        self, statuses: Sequence[CellStatus], runs_dir: Path, slots: int, later: Sequence[CellStatus] | None = None
    ) -> None:
        self.later, self.trials = later or (), later is not None
        self.statuses = {status.cell.run_id or f"#{place}": status for place, status in enumerate(statuses)}
        self.runs_dir = runs_dir
        self.slots = slots
        self.estimate = Estimate(statuses)

    def take(self, event: Event) -> None:
        """Update a cell from an event; a finished cell adds its time to the estimate."""
        self.statuses[str(event.status.cell.run_id)] = event.status
        self.estimate.learn(event.status, event.seconds or 0.0)

    def summary(self) -> str:
        """Read the running cells again, and return the progress in one line.

        It has the number of done cells, of others by state except those not begun, the optimizer steps of at most three
        running cells, and the time left if it is known. A cell that this planner has started counts as running even if
        it holds no lock yet.
        """
        for name, status in self.statuses.items():
            if status.state is CellState.RUNNING:
                seen = look(status.cell, self.runs_dir)
                waiting = seen.state in (*NOT_BEGUN, CellState.INTERRUPTED)
                self.statuses[name] = replace(seen, state=CellState.RUNNING) if waiting else seen
        counts = tally(self.statuses.values())
        parts = [f"{counts.get(CellState.DONE, 0)} of {len(self.statuses)} done"]
        parts += [f"{count} {kind}" for kind, count in counts.items() if kind not in (CellState.DONE, *NOT_BEGUN)]
        running = [steps_done(s) for s in self.statuses.values() if s.state is CellState.RUNNING]
        steps = [f"{done:,} of {most:,}" for done, most in filter(None, running)]
        parts += [f"step {', '.join(steps[:3])}"] if steps else []
        open_ones = [s for s in self.statuses.values() if s.state in LEFT and s.state is not CellState.INTERRUPTED]
        if left := self.estimate.total([*open_ones, *self.later], self.slots):
            parts.append(f"about {duration(left)} left")
        return " · ".join(parts)


View = Callable[[Event | None], None]  # shows an event; None: time has passed


@contextmanager
def shown(tracker: Tracker) -> Iterator[View]:
    """Yield a view of a sweep: a function that takes events.

    Each event is a line on stderr. The summary is live on a terminal, else a line every 30 seconds.
    """
    console = Console(stderr=True)
    live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True) if live else note
    looked = time.monotonic()

    def show(event: Event | None) -> None:
        """Print an event, and the summary if it is due."""
        nonlocal looked
        if event is not None:
            tracker.take(event)
            say(printable(said(event, trial=tracker.trials)))
        if time.monotonic() - looked >= (REFRESH if live else SUMMARY_EVERY):
            looked = time.monotonic()
            summarize()

    def summarize() -> None:
        """Show the summary."""
        if live:
            live.update(Text(tracker.summary()), refresh=True)
        else:
            note(tracker.summary())

    with live or nullcontext():
        summarize()
        yield show


def faults(statuses: Iterable[CellStatus]) -> Iterator[str]:
    """Yield one line for each reason why cells cannot run.

    The line has the first cell's state and label, and the number of others.
    """
    faulty = [status for status in statuses if status.cell.fault is not None]
    for reason, group in grouped_by(faulty, lambda status: str(status.cell.fault)).items():
        others = f" and {len(group) - 1} more" if len(group) > 1 else ""
        yield f"{group[0].state}: {group[0].cell.label}{others}: {reason}"


def said(event: Event, *, trial: bool = False) -> str:
    """Return the text of an event, one line.

    "started CELL (ID)" for a running cell. Else the state ("not begun" for missing and queued cells), "after DURATION"
    ("elsewhere" without a process of ours), and the cell. Its main score follows if it is done, else the signal that
    killed it or its reason, if any. A trial has its best validation score instead, which chooses.
    """
    status = event.status
    if status.state is CellState.RUNNING:
        return f"started {status.cell.label} ({status.cell.run_id})"
    took = f" after {duration(event.seconds)}" if event.seconds is not None else " elsewhere"
    reason = f": {status.reason}" if status.reason and status.state is not CellState.DONE else ""
    if event.code is not None and event.code < 0 and status.state is not CellState.DONE:
        reason = f": killed by signal {-event.code}"
    run = status.run if status.state is CellState.DONE else None
    name = BEST if trial else run.main_score if run else None
    best = run.score(name) if run and name else None
    shown_name = f"val/{status.cell.config.training.monitor}" if trial and status.cell.config else name
    scores = f": {shown_name} {number(best)}" if best is not None else ""
    word = "not begun" if status.state in NOT_BEGUN else str(status.state)
    return f"{word}{took} {status.cell.label}{scores}{reason}"
