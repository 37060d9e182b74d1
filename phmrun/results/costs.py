"""Costs beside a score: parameters, multiplications, time. Imports no torch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, median
from typing import Any, NamedTuple

from phmrun.errors import PhmrunError, unknown
from phmrun.ledger import Run
from phmrun.ledger.record import POINTS, thinned
from phmrun.ledger.wording import SERVING, duration
from phmrun.results.entries import Entry
from phmrun.results.table import MISSING, ResultTable

SERVED = "the smaller safetensors file in single precision, as measured by `phmrun export RUN --compare`"
FACTORED = "safetensors factored"  # a label of ``phmrun export --compare``
TRAINING = "training"  # phase of ``phmrun bench run`` that measures optimizer steps


class Point(NamedTuple):
    """Network with its cost and score."""

    label: str  # name for readers
    size: float  # its cost
    score: float  # mean of its score
    spread: float | None  # standard deviation over seeds; ``None`` for a single seed


@dataclass(frozen=True)
class Cost:
    """Cost of a run that tables can show."""

    heading: str  # heading of its column
    of: Callable[[Run], float | None]  # amount of a run; ``None`` if not on record
    shown: Callable[[float], str]  # formats an amount
    meaning: str = ""  # note below the table
    average: Callable[[Iterable[float]], float] = fmean  # average over runs


def cost_of(entries: Iterable[Entry], name: str) -> float | None:
    """Return the average of a cost over the runs that have it on record.

    ``name`` is a key of :data:`COSTS`. Times by the clock of training and scoring are medians, other costs means. The
    result is ``None`` if no run has it.
    """
    amounts = [value for entry in entries if entry.run and (value := COSTS[name].of(entry.run)) is not None]
    return COSTS[name].average(amounts) if amounts else None


def cost_texts(entries: Sequence[Entry], names: Sequence[str]) -> list[str]:
    """Return the texts of the named costs, in order.

    Each is the average over the runs that have it on record; without any it is "–".
    """
    amounts = [(name, cost_of(entries, name)) for name in names]
    return [MISSING if amount is None else COSTS[name].shown(amount) for name, amount in amounts]


def require_cost(name: str, where: str) -> str:
    """Return a name unchanged if it is one of :data:`COSTS`.

    Raises:
        PhmrunError: (exit 2) It is none of them. ``where`` names the option in the message.
    """
    if name not in COSTS:
        raise unknown("cost", name, list(COSTS), where=where)
    return name


def has_frozen(entries: Iterable[Entry]) -> bool:
    """True if a run trains fewer parameters than its network has, as updates of a frozen one do."""
    counts = ((COSTS["trained"].of(entry.run), entry.run.about("parameters")) for entry in entries if entry.run)
    return any(trained and total and trained < total for trained, total in counts)


def points_of(table: ResultTable, column: int, cost: str = "parameters") -> list[Point]:
    """Return the points of a table's rows that have a cost and a score in a column."""
    points = []
    for name, figures in zip(table.names, table.figures, strict=True):
        figure = figures[column]
        if (size := cost_of(figure.entries, cost)) is not None and figure.mean is not None:
            points.append(Point(name, size, figure.mean, figure.deviation))
    return points


def frontier(points: Sequence[Point], *, lower: bool = False) -> list[Point]:
    """Return the Pareto-optimal points, by ascending size.

    No other point is at most as large and better, or smaller and as good. Of equal points, the first is kept.
    ``lower``: lower scores are better.
    """
    sign = -1 if lower else 1
    kept: list[Point] = []
    for point in sorted(points, key=lambda each: (each.size, -sign * each.score)):
        if not kept or sign * point.score > sign * kept[-1].score:
            kept.append(point)
    return kept


def meanings(entries: Iterable[Entry], names: Sequence[str]) -> Iterable[str]:
    """Yield the notes on costs that have one.

    Another note says for ``step-time`` if machines differ.
    """
    for name in names:
        if COSTS[name].meaning:
            yield f"{COSTS[name].heading}: {COSTS[name].meaning}"
    facts = [entry.run.bench().get(TRAINING, {}).get("machine", {}) for entry in entries if entry.run]
    machines = {(fact.get("gpu") or fact.get("processor"), fact.get("threads")) for fact in facts if fact}
    if "step-time" in names and len(machines) > 1:
        yield f"{COSTS['step-time'].heading}: different machines, not comparable"


def _count(value: Any) -> float | None:
    """Return a whole number as a float; ``None`` for anything else."""
    return float(value) if isinstance(value, int) else None


def _step_time(run: Run) -> float | None:
    """Return the seconds of an optimizer step, median over rounds; ``None`` if not on record."""
    phase = run.bench().get(TRAINING)
    return phase["median_seconds"] / phase["steps"] if phase else None


def _weights_size(run: Run) -> float | None:
    """Return the bytes of a run's weights; ``None`` if not on record.

    Frozen weights count; a dense matrix that only guides a structure in training does not.
    """
    memory, counts = run.parameters().get("memory"), run.parameters()
    weights = memory.get("weights") if isinstance(memory, Mapping) else None
    total, trained = counts.get("total"), counts.get("trained_total")
    if not isinstance(weights, int) or not isinstance(total, int):
        return None
    return float(weights - 4 * max(0, trained - total) if isinstance(trained, int) else weights)  # guides are float32


def _clock_step(run: Run) -> float | None:
    """Return the seconds of an optimizer step by the clock of training.

    It is the median over the intervals between two logged losses, so that validations and pauses hardly count. The
    result is ``None`` with fewer than two such intervals on record, or for a damaged history. It is ``None``, too, for
    the thinned history of a small result, whose intervals hold validations.
    """
    with suppress(PhmrunError, KeyError, TypeError):
        rows = list(run.history.rows("train/loss"))
        points = [(int(row["step"]), float(row["time"])) for row in rows]
        if len(rows) == POINTS and thinned(rows) == rows:
            return None
        rates = [(late - early) / (end - begin) for (begin, early), (end, late) in pairwise(points) if end > begin]
        return median(rate for rate in rates if rate > 0) if len(rates) > 1 else None
    return None


def _served(field: str, run: Run) -> float | None:
    """Return a measurement of a run by ``phmrun export --compare``, by its key.

    It is that of the smaller safetensors file in single precision, folded or with factors; ``None`` if neither is on
    record.
    """
    rows = [run.bench().get(f"{SERVING}{name}", {}) for name in ("safetensors", FACTORED)]
    rows = [row for row in rows if isinstance(row.get("bytes"), int) and isinstance(row.get(field), int | float)]
    return float(min(rows, key=lambda row: row["bytes"])[field]) if rows else None


_COUNT, _MEGABYTES = "{:,.0f}".format, lambda value: f"{value / 1e6:,.2f}"

COSTS: Mapping[str, Cost] = {
    "parameters": Cost("parameters", lambda run: _count(run.about("parameters")), _COUNT),
    "trained": Cost(
        "trained", lambda run: _count(run.parameters().get("trained_total")), _COUNT, "parameters that are not frozen"
    ),
    "multiplications": Cost(
        "multiplications",
        lambda run: _count(run.parameters().get("multiplications")),
        _COUNT,
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
        "an optimizer step as measured by `phmrun bench run RUN --only training`, not during training",
    ),
    "clock-step": Cost(
        "ms per step, training",
        _clock_step,
        lambda value: f"{1000 * value:.3g}",
        "median by the clock of training, whatever else its machine did meanwhile",
        median,
    ),
    "clock-sentence": Cost(
        "ms a test sentence",
        lambda run: 1 / speed if (speed := run.score("test/sentences_per_second")) else None,
        lambda value: f"{1000 * value:.2g}",
        "by the clock when the run was scored, in its batches, whatever else its machine did meanwhile",
        median,
    ),
    "weights-size": Cost("MB of weights", _weights_size, _MEGABYTES, "in single precision"),
    "file-size": Cost("MB on disk", partial(_served, "bytes"), _MEGABYTES, SERVED),
    "serving-memory": Cost(
        "MB in memory", partial(_served, "peak_memory"), lambda value: f"{value / 1e6:,.0f}", SERVED
    ),
    "latency": Cost("ms a sentence", partial(_served, "single_ms"), "{:,.1f}".format, f"{SERVED}, batch 1"),
}
"""Costs by the name of the option ``--costs``."""
