"""Progress of a sweep on stderr, live on a terminal.

Without a terminal it is plain lines.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from phmrun.errors import PhmrunError
from phmrun.ledger import RecordedRun
from phmrun.ledger.card import duration, number
from phmrun.ledger.history import BEST
from phmrun.progress import note
from phmrun.sweeps.cell_status import NOT_BEGUN, CellState, CellStatus, Estimate, look, progress, tally
from phmrun.sweeps.scheduler import Event

SUMMARY_EVERY = 30.0  # seconds between two summaries without a terminal
REFRESH = 1.0  # seconds between two updates of the running cells
MOST_SHOWN = 12


class Tracker:
    """Progress of a sweep, updated by events.

    Args:
        statuses: Cells at the beginning.
        runs_dir: Directory of runs.
        slots: Number of runs at a time.
        later: Further runs of the sweep that follow, for the time left.
        trials: True if the cells are trials of tuning.
    """

    def __init__(
        self,
        statuses: Sequence[CellStatus],
        runs_dir: Path,
        slots: int,
        *,
        later: Sequence[CellStatus] = (),
        trials: bool = False,
    ) -> None:
        self.later, self.trials = list(later), trials
        self.statuses = {status.cell.run_id or f"#{place}": status for place, status in enumerate(statuses)}
        self.runs_dir = runs_dir
        self.slots = slots
        self.estimate = Estimate(statuses)
        self._started: set[str] = set()

    def take(self, event: Event) -> None:
        """Update cells, times and overheads from an event.

        A finished cell adds its times to the estimate.
        """
        status, name = event.status, str(event.status.cell.run_id)
        self.statuses[name] = status
        if status.state is CellState.RUNNING:
            self._started.add(name)
        else:
            self._started.discard(name)
        if status.state is CellState.DONE and status.run and status.run.status:
            self.estimate.learn(status.cell, status.run.status.seconds, event.seconds)

    def refresh(self) -> list[CellStatus]:
        """Read the running cells again, and return those that still run.

        Those that this planner has started count as running even if they hold no lock yet.
        """
        for name, status in self.statuses.items():
            if status.state is CellState.RUNNING:
                seen = look(status.cell, self.runs_dir)
                waiting = name in self._started and seen.state in (*NOT_BEGUN, CellState.INTERRUPTED)
                self.statuses[name] = replace(seen, state=CellState.RUNNING) if waiting else seen
        return [status for status in self.statuses.values() if status.state is CellState.RUNNING]

    def left(self) -> float | None:
        """Return the seconds left; ``None`` if unknown.

        They are for missing, queued and running cells, and for later runs; interrupted cells do not count.
        """
        return self.estimate.total(self._open_ones(), self.slots)

    def summary(self, running: Iterable[CellStatus]) -> str:
        """Return the progress in one line.

        It has the number of done cells, of others by state except those not begun, units per second, and time left.
        Units and time are left out if unknown.
        """
        counts = tally(self.statuses.values())
        parts = [f"{counts.get(CellState.DONE, 0)} of {len(self.statuses)} done"]
        parts += [f"{count} {kind}" for kind, count in counts.items() if kind not in (CellState.DONE, *NOT_BEGUN)]
        paces = [pace for pace in (pace_of(status.run) for status in running) if pace]
        if paces:
            parts.append(f"{sum(paces):,.0f} units/s")
        left = self.left()
        if left:
            parts.append(f"{self.estimate.text(left, self._open_ones())} left")
        return " · ".join(parts)

    def _open_ones(self) -> list[CellStatus]:
        """Return the missing, queued and running cells, then later runs."""
        open_ones = [status for status in self.statuses.values() if status.state in (*NOT_BEGUN, CellState.RUNNING)]
        return [*open_ones, *self.later]


View = Callable[[Event | None], None]  # shows an event; None: time has passed


@contextmanager
def shown(tracker: Tracker, console: Console) -> Iterator[View]:
    """Yield a view of a sweep: a function that takes events.

    It shows a live table on a terminal, else lines on stderr, the first of which is a summary.
    """
    looked = time.monotonic()

    def lines(event: Event | None) -> None:
        """Print one line per event.

        Without events, a summary is printed every 30 seconds.
        """
        nonlocal looked
        if event is not None:
            tracker.take(event)
            note(said(event, trial=tracker.trials))
        elif time.monotonic() - looked >= SUMMARY_EVERY:
            looked = time.monotonic()
            note(tracker.summary(tracker.refresh()))

    def table(event: Event | None) -> None:
        """Print events above a live table of the running cells.

        Starts are not printed. The table is updated at each event, else every second.
        """
        nonlocal looked
        if event is not None:
            tracker.take(event)
            if event.status.state is not CellState.RUNNING:
                console.print(said(event, trial=tracker.trials), markup=False, highlight=False, soft_wrap=True)
        if event is not None or time.monotonic() - looked >= REFRESH:
            looked = time.monotonic()
            running = tracker.refresh()
            live.update(Group(_running(tracker, running), Text(tracker.summary(running))), refresh=True)

    if not console.is_terminal:
        note(tracker.summary([]))
        yield lines
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        looked = -REFRESH  # at once
        yield table


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


def pace_of(run: RecordedRun | None) -> float | None:
    """Return a run's latest units (tokens) per second.

    They are in the last row of its history. The result is ``None`` if unknown.
    """
    if run is None:
        return None
    try:
        last = run.run.history.last()
    except PhmrunError:
        return None
    pace = (last or {}).get("train/units_per_second")
    return float(pace) if isinstance(pace, int | float) else None


def _running(tracker: Tracker, statuses: Sequence[CellStatus]) -> Table:
    """Return the table of the running cells.

    Columns: cell, step, share, pace, time left; what is unknown is empty. At most 12 cells are shown, then the number
    of others.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("running", "step", "", "units/s", "left"):
        table.add_column(heading, justify="left" if heading == "running" else "right")
    for status in statuses[:MOST_SHOWN]:
        recorded = status.run.status if status.run else None
        share, pace, left = progress(status), pace_of(status.run), tracker.estimate.left(status)
        table.add_row(
            # Rich would read [brackets] in a bare string as markup
            Text(status.cell.label),
            f"{recorded.step:,}" if recorded else "",
            f"{share:.0%}" if share is not None else "",
            f"{pace:,.0f}" if pace else "",
            duration(left) if left else "",
        )
    if len(statuses) > MOST_SHOWN:
        table.add_row(Text(f"… and {len(statuses) - MOST_SHOWN} more"))
    return table
