"""Gain of a cell's validation in the last third of training.

If dense still gains more than the margin there, the table says so. Imports no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from phmrun.metric import find_metric, metric_of
from phmrun.results.table import Figure
from phmrun.results.validations import validations

RELATIVE = 0.01
"""Gain that counts, as a share of the value, for a score without a margin."""


@dataclass(frozen=True)
class LateGain:
    """Gain of a cell's validation in the last third of training, a mean over seeds.

    Attributes:
        metric: Name of the validation score.
        value: Gain of the best value over the best of the first two thirds; 0 or more.
        limit: Gain that counts: the margin, or 1 % of the value without one.
    """

    metric: str
    value: float
    limit: float

    @property
    def matters(self) -> bool:
        """True if the gain is above the limit."""
        return self.value > self.limit


def validation_curve(figure: Figure, score: str) -> tuple[str, list[tuple[int, float]]]:
    """Return the name of a cell's validation score, and its curve.

    The curve is the mean over runs, in the order of steps. The score is the validation of ``score`` if all runs have
    one, else the loss. Shares are in percent. Values that are not finite, steps that not all runs have, and runs
    without validations are left out. Without a common score, name and curve are empty.
    """
    name, curves = validations(figure, score)
    by_step = [{point.step: point.value for point in curve} for curve in curves]
    steps = set.intersection(*map(set, by_step)) if by_step else set()
    return name, [(step, fmean(values[step] for values in by_step)) for step in sorted(steps)]


def late_gain(name: str, curve: Sequence[tuple[int, float]], margin: float | None) -> LateGain | None:
    """Return the gain of a validation curve in its last third.

    It is the best value of the last third against the best before, at least 0. The last third begins after two thirds
    of the last validation's step. The limit is ``margin``; for a loss, or without a margin, it is 1 % of the absolute
    value of the best before. ``None`` if either part has no validation.

    Args:
        name: Name of the validation score. Its metric decides if lower is better; without a known one, higher is.
        curve: Steps and values, in any order.
        margin: Margin of the score, in its unit; not used for a loss, which has another unit. 0 counts as ``None``.
    """
    last = max((step for step, _ in curve), default=0)
    early = [value for step, value in curve if 3 * step <= 2 * last]
    late = [value for step, value in curve if 3 * step > 2 * last]
    if not early or not late:
        return None
    metric = find_metric(name)
    lower = metric.lower_is_better if metric else False
    best = min if lower else max
    before = best(early)
    gain = (before - best(late)) if lower else (best(late) - before)
    limit = margin if margin and not name.endswith("/loss") else RELATIVE * abs(before)
    return LateGain(name, max(gain, 0.0), limit)


def late_gain_sentence(gain: LateGain, baseline: str = "the dense cell") -> str:
    """Return the note on a baseline that still gains.

    It has the gain, its limit, and the option ``--horizons`` to try. The gain is not compared with the limit here.
    """
    metric = metric_of(gain.metric)
    unit = f" {metric.unit}" if metric.unit and metric.unit != "%" else ""
    return (
        f"{baseline} still gains {gain.value:.2f}{unit} of validation {metric.words} in the last third of "
        f"training, more than {gain.limit:.2g}: differences may change with its length, see --horizons 1,3"
    )
