"""Validations of a table's cell: curves of its runs, and row and dense at equal time. Imports no torch."""

import math
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from phmrun.errors import PhmrunError
from phmrun.ledger.card import duration
from phmrun.ledger.history import shown
from phmrun.metric import metric_of
from phmrun.results.table import Figure


class Validation(NamedTuple):
    """Validation of a run."""

    step: int  # optimizer steps so far
    seconds: float  # seconds of training so far; 0 if they are not on record
    value: float  # the score; shares in percent


@dataclass(frozen=True)
class EqualTime:
    """Validations of a row and its dense cell at equal time, means over seeds.

    Attributes:
        metric: Name of the validation score.
        seconds: The time, that of the faster one's last validation.
        value: Last validation of the row by then.
        reference: That of the dense cell.
    """

    metric: str
    seconds: float
    value: float
    reference: float


def validations(figure: Figure, score: str) -> tuple[str, list[list[Validation]]]:
    """Return the name of a cell's validation score, and its curve in each run.

    The score is the validation of ``score`` if all runs have one, else the loss. Runs without validations are left out
    first, as are values that are not finite, and a history's rows from a damaged one on. Without a common score, name
    and list are empty.
    """
    histories: list[dict[str, list[Validation]]] = []
    for entry in figure.entries:
        curves: dict[str, list[Validation]] = {}
        with suppress(PhmrunError):
            for row in entry.run.run.history.rows("val/") if entry.run else ():
                for name, value in row.items():
                    if name.startswith("val/") and isinstance(value, int | float) and math.isfinite(value):
                        seconds = float(row.get("time") or 0.0)
                        curves.setdefault(name, []).append(Validation(int(row["step"]), seconds, shown(name, value)))
        histories += [curves] if curves else []
    wanted = (f"val/{metric_of(score).name}", "val/loss")
    name = next((name for name in wanted if histories and all(name in curves for curves in histories)), "")
    return name, [curves[name] for curves in histories] if name else []


def at_equal_time(row: Figure, dense: Figure, score: str) -> EqualTime | None:
    """Return the validations of a row and of dense at equal time.

    The time is the shorter of both sides' mean time at the last validation, by the clock of their runs. A run counts by
    its share of its side's mean time, so that a slow machine of one seed does not matter. The result is ``None`` if
    times or a common validation are not on record, or if a run has no validation by then.
    """
    sides = [validations(figure, score) for figure in (row, dense)]
    if not sides[0][0] or sides[0][0] != sides[1][0]:
        return None
    lasts = [[max(point.seconds for point in curve) for curve in curves] for _, curves in sides]
    seconds = min(map(fmean, lasts))
    means = []
    for (_, curves), ends in zip(sides, lasts, strict=True):
        share = seconds / fmean(ends) if seconds else 0.0
        by_then = [
            [point.value for point in curve if point.seconds <= share * end * (1 + 1e-9)]
            for curve, end in zip(curves, ends, strict=True)
        ]
        if not share or not all(by_then):
            return None
        means.append(fmean(values[-1] for values in by_then))
    return EqualTime(sides[0][0], seconds, means[0], means[1])


def equal_time_sentence(equal: EqualTime) -> str:
    """Return the remark on a row at equal time.

    It has the time and both validations: "after 10 min of training each, …: validation BLEU 20.10, dense 21.30".
    """
    words = metric_of(equal.metric).words
    clock = f"after {duration(equal.seconds)} of training each, by the clock of these runs"
    return f"{clock}: validation {words} {equal.value:.2f}, dense {equal.reference:.2f}"
