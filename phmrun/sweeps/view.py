"""What a sweep is doing, for somebody who looks on: a live table on a terminal, plain lines elsewhere; on stderr."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.card import duration, number
from phmrun.ledger.listing import RunSummary
from phmrun.progress import note
from phmrun.sweeps.cell_status import NOT_BEGUN, CellState, CellStatus, look, tally
from phmrun.sweeps.estimate import Estimate, progress
from phmrun.sweeps.scheduler import Event

SUMMARY_EVERY = 30.0
"""Seconds between two lines on the whole, where there is no terminal."""
REFRESH = 1.0
"""Seconds between two looks at the runs at work."""
MOST_SHOWN = 12


class Course:
    """The course of a sweep, kept from events.

    Args:
        stands: Its cells, as they stand at the beginning.
        runs_dir: The directory of all runs.
        slots: How many runs there are at a time.
    """

    def __init__(self, stands: Sequence[CellStatus], runs_dir: Path, slots: int) -> None:
        self.stands = {stand.cell.run_id or f"#{place}": stand for place, stand in enumerate(stands)}
        self.runs_dir = runs_dir
        self.slots = slots
        self.estimate = Estimate(stands)
        self._overheads: list[float] = []
        self._started: set[str] = set()

    def take(self, event: Event) -> None:
        """Takes in an event."""
        stand, name = event.stand, str(event.stand.cell.run_id)
        self.stands[name] = stand
        if stand.standing is CellState.RUNNING:
            self._started.add(name)
        else:
            self._started.discard(name)
        if stand.standing is CellState.DONE and stand.run and stand.run.status:
            self.estimate.learn(stand.cell, stand.run.status.seconds)
            if event.seconds is not None:
                self._overheads.append(max(0.0, event.seconds - stand.run.status.seconds))

    def refresh(self) -> list[CellStatus]:
        """Looks at the runs at work again, and returns them; one that was started is, though it has no lock yet."""
        for name, stand in self.stands.items():
            if stand.standing is CellState.RUNNING:
                seen = look(stand.cell, self.runs_dir)
                waiting = name in self._started and seen.standing in (*NOT_BEGUN, CellState.INTERRUPTED)
                self.stands[name] = replace(seen, standing=CellState.RUNNING) if waiting else seen
        return [stand for stand in self.stands.values() if stand.standing is CellState.RUNNING]

    def left(self) -> float | None:
        """Seconds until the end, start-ups and evaluations included once some were measured."""
        open_ones = [s for s in self.stands.values() if s.standing in (*NOT_BEGUN, CellState.RUNNING)]
        training = self.estimate.total(open_ones, self.slots)
        if training is None or not open_ones:
            return training
        overhead = sum(self._overheads) / len(self._overheads) if self._overheads else 0.0
        return training + overhead * len(open_ones) / self.slots

    def summary(self, running: Iterable[CellStatus]) -> str:
        """The whole in one line."""
        counts = tally(self.stands.values())
        parts = [f"{counts.get(CellState.DONE, 0)} of {len(self.stands)} done"]
        parts += [f"{count} {kind}" for kind, count in counts.items() if kind not in (CellState.DONE, *NOT_BEGUN)]
        paces = [pace for pace in (pace_of(stand.run) for stand in running) if pace]
        if paces:
            parts.append(f"{sum(paces):,.0f} units/s")
        left = self.left()
        if left:
            parts.append(f"about {duration(left)} left")
        return " · ".join(parts)


class View(Protocol):
    """Shows the course of a sweep."""

    def __call__(self, event: Event | None) -> None:
        """Shows an event, or that time has passed."""


@contextmanager
def shown(course: Course, console: Console) -> Iterator[View]:
    """A view of the course: live where the console is a terminal, lines otherwise."""
    if not console.is_terminal:
        yield _Lines(course)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _Table(course, live)


def said(event: Event) -> str:
    """An event in one line."""
    stand = event.stand
    if stand.standing is CellState.RUNNING:
        return f"started {stand.cell.label} ({stand.cell.run_id})"
    took = f" after {duration(event.seconds)}" if event.seconds is not None else " elsewhere"
    reason = f": {stand.reason}" if stand.reason and stand.standing is not CellState.DONE else ""
    if event.code is not None and event.code < 0:
        reason = f": killed by signal {-event.code}"
    best = headline(stand.run) if stand.standing is CellState.DONE and stand.run else ""
    scores = f": {best}" if best else ""
    word = "not begun" if stand.standing in NOT_BEGUN else str(stand.standing)
    return f"{word}{took} {stand.cell.label}{scores}{reason}"


def headline(run: RunSummary) -> str:
    """Its main score, with the name; nothing without one."""
    name = run.main_score
    value = run.score(name) if name else None
    return f"{name} {number(value)}" if value is not None else ""


def pace_of(run: RunSummary | None) -> float | None:
    """Units (tokens) per second in the last row of a run's history."""
    if run is None:
        return None
    try:
        last = Run(run.path).history.last()
    except PhmrunError:
        return None
    pace = (last or {}).get("train/units_per_second")
    return float(pace) if isinstance(pace, int | float) else None


class _Lines:
    """One line per event, and now and then one on the whole."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._told = time.monotonic()

    def __call__(self, event: Event | None) -> None:
        if event is not None:
            self.course.take(event)
            note(said(event))
        elif time.monotonic() - self._told >= SUMMARY_EVERY:
            self._told = time.monotonic()
            note(self.course.summary(self.course.refresh()))


class _Table:
    """Events scroll by above a table of the runs at work."""

    def __init__(self, course: Course, live: Live) -> None:
        self.course = course
        self.live = live
        self._looked = 0.0

    def __call__(self, event: Event | None) -> None:
        if event is not None:
            self.course.take(event)
            if event.stand.standing is not CellState.RUNNING:
                self.live.console.print(said(event), markup=False, highlight=False, soft_wrap=True)
        if event is not None or time.monotonic() - self._looked >= REFRESH:
            self._looked = time.monotonic()
            running = self.course.refresh()
            self.live.update(Group(_running(self.course, running), Text(self.course.summary(running))), refresh=True)


def _running(course: Course, stands: Sequence[CellStatus]) -> Table:
    """The runs at work: where they are and how fast."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("running", "step", "", "units/s", "left"):
        table.add_column(heading, justify="left" if heading == "running" else "right")
    for stand in stands[:MOST_SHOWN]:
        status = stand.run.status if stand.run else None
        share, pace, left = progress(stand), pace_of(stand.run), course.estimate.left(stand)
        table.add_row(
            Text(stand.cell.label),
            f"{status.step:,}" if status else "",
            f"{share:.0%}" if share is not None else "",
            f"{pace:,.0f}" if pace else "",
            duration(left) if left else "",
        )
    if len(stands) > MOST_SHOWN:
        table.add_row(Text(f"… and {len(stands) - MOST_SHOWN} more"))
    return table
