"""Direction and unit of scores that any program measured, by the registry of metrics."""

import math
from collections.abc import Sequence

from phmrun.errors import ExitCode, PhmrunError
from phmrun.metric import PERCENT, find_direction, known_metric
from phmrun.statistics.long_form import Row

ROUNDING = 1e-6  # of values at their bounds
LEAST_POINTS = 0.1
"""Margin from which on it is taken for percentage points, if all scores are between 0 and 1."""


def direction_of(name: str, stated: bool | None) -> bool:
    """Return True if lower values of a metric are better: as stated, else as its name says.

    Raises:
        PhmrunError: (exit 2) It is neither stated nor known.
    """
    lower = find_direction(name) if stated is None else stated
    if lower is None:
        options = ("--lower-is-better", "--higher-is-better")
        what = f"it is not known whether lower or higher values of {name!r} are better"
        hint = f"`phmrun decide FILE --metric {name} {options[0]}`; in Python, lower_is_better=True."
        raise PhmrunError(what, where="--metric", valid=options, hint=hint)
    return lower


def direction_of_choice(name: str, metric: str, lower: bool, stated: bool | None) -> bool:
    """Return True if lower values of the validation metric are better.

    A registered metric has its own direction. One of the judged metric's name, behind a slash, has that metric's. So
    has any other if a direction is stated, and both names say the same of it.

    Raises:
        PhmrunError: (exit 2) The direction is not known.
    """
    if registered := known_metric(name):
        return registered.lower_is_better
    if name.rpartition("/")[2] == metric.rpartition("/")[2]:
        return lower
    direction = find_direction(name)
    if stated is not None and direction == find_direction(metric):
        return stated
    if direction is None or lower:
        what = f"it is not known whether lower or higher values of {name!r} are better"
        raise PhmrunError(what, where="--choose-by", hint="Write a known name into the file, such as loss or accuracy.")
    return direction


def require_units(rows: Sequence[Row], margin: float | None, *, lower_is_better: bool) -> None:
    """Check the values of one metric against its bounds, and their unit against the margin's.

    Values that are not finite are not checked. Fractions of 1 with a margin in percentage points would all be
    equivalent: values between 0 and 1 need a margin below 0.1, or below the largest value if lower is better. That
    holds for metrics in percent and for unknown ones.

    Raises:
        PhmrunError: (exit 3) A value is out of bounds. (exit 2) The margin is in another unit.
    """
    metric = known_metric(rows[0].metric)
    low, high = metric.bounds if metric else (-math.inf, math.inf)
    finite = [row for row in rows if math.isfinite(row.value)]
    for row in finite:
        if not low - ROUNDING <= row.value <= high + ROUNDING:
            between = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
            hint = "A metric of another kind needs another name."
            what = f"{row.metric} is {row.value:g}, and its values are {between}"
            raise PhmrunError(what, where=row.where, hint=hint, code=ExitCode.DATA)
    largest = max((row.value for row in finite), default=0.0)
    fractions = 0 < largest <= 1 and all(row.value >= 0 for row in finite)
    limit = largest if lower_is_better and metric is None else LEAST_POINTS
    if fractions and margin and margin >= limit and (metric is None or metric.bounds == PERCENT):
        what = f"all values of {rows[0].metric} are between 0 and 1, and the margin {margin:g} is for percentages"
        hint = f"Multiply the values by 100, or state the margin in their unit: --margin {margin / 100:g}."
        raise PhmrunError(what, where="--margin", hint=hint)
