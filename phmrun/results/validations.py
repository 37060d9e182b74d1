"""Validation curves of a table's cell. Imports no torch."""

import math
from contextlib import suppress
from statistics import fmean
from typing import NamedTuple

from phmrun.errors import PhmrunError
from phmrun.ledger.history import shown
from phmrun.metric import metric_of
from phmrun.results.table import Figure


class Validation(NamedTuple):
    """Validation of a run."""

    step: int  # optimizer steps so far
    value: float  # the score; shares in percent


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
                        curves.setdefault(name, []).append(Validation(int(row["step"]), shown(name, value)))
        histories += [curves] if curves else []
    wanted = (f"val/{metric_of(score).name}", "val/loss")
    name = next((name for name in wanted if histories and all(name in curves for curves in histories)), "")
    return name, [curves[name] for curves in histories] if name else []


def validation_curve(figure: Figure, score: str) -> tuple[str, list[tuple[int, float]]]:
    """Return the name of a cell's validation score, and its curve.

    The curve is the mean over runs, in the order of steps. Steps that not all runs have are left out. See
    :func:`validations` for the choice of the score.
    """
    name, curves = validations(figure, score)
    by_step = [{point.step: point.value for point in curve} for curve in curves]
    steps = set.intersection(*map(set, by_step)) if by_step else set()
    return name, [(step, fmean(values[step] for values in by_step)) for step in sorted(steps)]
