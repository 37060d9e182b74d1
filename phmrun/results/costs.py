"""What a cell of a table costs beside its score: parameters, multiplications, time. Imports no torch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from phmrun.errors import PhmrunError, unknown
from phmrun.ledger import Run, RunSummary
from phmrun.ledger.card import duration
from phmrun.ledger.wording import row_name
from phmrun.results.entries import Entry
from phmrun.results.table import Figure, ResultTable

TRAINING = "training"  # the phase of ``phmrun bench run`` that measures optimizer steps


class Point(NamedTuple):
    """One network."""

    label: str  # what it is called
    size: float  # what it costs
    score: float  # the mean of its score
    spread: float | None  # the deviation over seeds; ``None`` of one


@dataclass(frozen=True)
class Cost:
    """Something that a run costs."""

    heading: str  # what stands above it
    of: Callable[[RunSummary], float | None]  # its amount; ``None`` where that is not on record
    shown: Callable[[float], str]  # an amount as text
    meaning: str  # what a reader must know of it


def cost_of(entries: Iterable[Entry], name: str) -> float | None:
    """The mean of one of :data:`COSTS` over the runs of experiments that have it on record; ``None``: none has."""
    found = [value for entry in entries if entry.run and (value := COSTS[name].of(entry.run)) is not None]
    return fmean(found) if found else None


def require_cost(name: str, where: str) -> str:
    """The name; refuses what is none of :data:`COSTS`."""
    if name not in COSTS:
        raise unknown("cost", name, list(COSTS), where=where)
    return name


def points_of(table: ResultTable, column: int, cost: str = "parameters") -> list[Point]:
    """The rows of a table that have one of :data:`COSTS` and a score in a column, named by what differs among them."""
    found = []
    telling = [len({labels[place] for labels in table.rows}) > 1 for place in range(len(table.keys))]
    for labels, figures in zip(table.rows, table.figures, strict=True):
        size, numbers = cost_of(figures[column].entries, cost), figures[column].numbers[0]
        if size is not None and numbers.mean is not None:
            named = zip(table.keys, labels, telling, strict=True)
            label = row_name({key: text for key, text, tells in named if tells or len(table.rows) == 1})
            found.append(Point(label, size, numbers.mean, numbers.deviation))
    return found


def frontier(points: Sequence[Point], *, lower: bool = False) -> list[Point]:
    """The points that no other beats: none is as small and better (lower, if ``lower``), nor smaller and as good."""
    sign = -1 if lower else 1
    kept: list[Point] = []
    for point in sorted(points, key=lambda each: (each.size, -sign * each.score)):
        if not kept or sign * point.score > sign * kept[-1].score:
            kept.append(point)
    return kept


def meanings(figures: Iterable[Figure], names: Sequence[str]) -> Iterable[str]:
    """What is to be said below a table of the costs that it shows, and on what the time of a step was measured."""
    for name in names:
        if COSTS[name].meaning:
            yield f"{COSTS[name].heading}: {COSTS[name].meaning}"
    if "step-time" not in names:
        return
    runs = {entry.run.id: entry.run for figure in figures for entry in figure.entries if entry.run}
    measured = {name: phase for name, run in runs.items() if (phase := _training_phase(run))}
    machines: dict[str, None] = {}
    for facts in (phase.get("machine", {}) for phase in measured.values()):
        load = facts.get("load_average")
        busy = f", load average {load}" if isinstance(load, int | float) else ""
        machines[f"{facts.get('gpu') or facts.get('processor')}, threads: {facts.get('threads')}{busy}"] = None
    on = f", on {'; '.join(machines)}" if machines else ""
    unlike = ": not measured alike" if len(machines) > 1 else ""
    yield f"{COSTS['step-time'].heading}: on record for {len(measured)} of {len(runs)} runs{on}{unlike}"


def _parameters(run: RunSummary) -> float | None:
    found = run.about("parameters")
    return float(found) if isinstance(found, int) else None


def _training_parameters(run: RunSummary) -> float | None:
    """Parameters that training moves; more than those kept if a dense matrix guides a structure."""
    try:
        counts = Run(run.path).parameters()
    except PhmrunError:
        return None
    count = counts.get("trained_total", counts.get("total"))
    return float(count) if isinstance(count, int) else None


def _multiplications(run: RunSummary) -> float | None:
    try:
        found = Run(run.path).parameters().get("multiplications")
    except PhmrunError:
        return None
    return float(found) if isinstance(found, int) else None


def _step_time(run: RunSummary) -> float | None:
    """Seconds of an optimizer step, by the median of its rounds."""
    phase = _training_phase(run)
    seconds, steps = phase.get("median_seconds"), phase.get("steps")
    if not isinstance(seconds, int | float) or not isinstance(steps, int) or steps < 1:
        return None
    return seconds / steps


def _training_phase(run: RunSummary) -> Mapping[str, Any]:
    try:
        return Run(run.path).bench().get(TRAINING, {})
    except PhmrunError:
        return {}


COSTS: Mapping[str, Cost] = {
    "parameters": Cost("parameters", _parameters, lambda value: f"{value:,.0f}", ""),
    "training-parameters": Cost("in training", _training_parameters, lambda value: f"{value:,.0f}", ""),
    "multiplications": Cost(
        "multiplications",
        _multiplications,
        lambda value: f"{value:,.0f}",
        "of the weight matrices for one token, each W built once for 4,096 of them",
    ),
    "training-time": Cost(
        "training",
        lambda run: (run.status.seconds or None) if run.status else None,
        duration,
        "the clock's time of a run, whatever else its machine did meanwhile",
    ),
    "step-time": Cost(
        "ms per step",
        _step_time,
        lambda value: f"{1000 * value:.3g}",
        "an optimizer step as `phmrun bench run RUN --only training` measured it by itself; never taken from training",
    ),
}
"""What a table can show beside its scores, by the name that it is asked for by."""
