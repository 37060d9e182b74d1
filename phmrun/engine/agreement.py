"""Verdict on a repeated run: identical, same up to rounding, within noise, or different."""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from math import isnan
from operator import itemgetter
from statistics import stdev
from typing import Any, NamedTuple

from phmrun.ledger import Run, State
from phmrun.ledger.listing import list_runs
from phmrun.ledger.scores import score_value
from phmrun.statistics.welch import t_quantile

ROUNDING = 1e-3  # largest relative difference of two losses or scores that counts as rounding
LEAST_SEEDS = 3  # smallest number of runs with other seeds for an estimate of the noise


class AgreementLevel(StrEnum):
    """Agreement of two runs of one experiment."""

    IDENTICAL = "identical"
    ROUNDING = "the same up to rounding"
    NOISE = "the end within noise"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Agreement:
    """Agreement of a run with its repetition.

    Attributes:
        outcome: Verdict.
        until: Last step at which the histories agree up to rounding; ``None`` if there is none.
        score: Name of the main score; empty if the run has none.
        gap: Difference of the main score, new minus old; ``None`` if a run does not have it.
        noise: Difference that two seeds exceed by chance in 5 % of cases; ``None`` if unknown.
        source: Source of the noise, in words.
    """

    outcome: AgreementLevel
    until: int | None
    score: str = ""
    gap: float | None = None
    noise: float | None = None
    source: str = ""

    @property
    def sentence(self) -> str:
        """Verdict in one sentence.

        "identical" stands alone. "The same up to rounding" is followed by the score's difference. Other outcomes are
        followed by the last step that agrees, and the score's difference with its noise, each as far as known.
        """
        if self.outcome is AgreementLevel.IDENTICAL:
            return "identical"
        course = (
            "no step of training agrees" if self.until is None else f"the same up to rounding until step {self.until:,}"
        )
        if self.outcome is AgreementLevel.ROUNDING:
            return f"{self.outcome} over all steps; {self.score} differs by {self.gap:+.4g}"
        if self.gap is None:
            return f"{self.outcome}: {course}; no score to compare"
        if self.noise is None:
            return f"{self.outcome}: {course}; {self.score} differs by {self.gap:+.4g}, noise unknown"
        side = "within" if abs(self.gap) <= self.noise else "beyond"
        moved = f"{self.score} differs by {self.gap:+.4g}, {side} ±{self.noise:.4g} ({self.source})"
        return f"{self.outcome}: {course}; {moved}"


def agreement(run: Run, again: Run, course: "Course", *, identical: bool) -> Agreement:
    """Return the verdict on a run and its repetition.

    Histories and main scores are compared. The outcome is "rounding" if losses and scores agree. Common losses then
    differ by at most a relative 10⁻³, scores by 10⁻³ (relative or absolute). It is "noise" if the scores differ by no
    more than the noise. Otherwise it is "different": if the noise is unknown, too, or a run has no main score.

    Args:
        run: Original run.
        again: Repeated run.
        course: Comparison of their histories.
        identical: True if all weights and scores are equal; nothing else is compared then.
    """
    if identical:
        return Agreement(AgreementLevel.IDENTICAL, None)
    score = run.main_score or ""
    before, after = (score_value(side.metrics().get(score)) for side in (run, again))
    if before is None or after is None:
        return Agreement(AgreementLevel.DIFFERENT, course.until, score)
    gap = after - before
    noise, source = _noise(run, score)
    close = math.isclose(before, after, rel_tol=ROUNDING, abs_tol=ROUNDING)
    within = noise is not None and abs(gap) <= noise
    level = AgreementLevel.NOISE if within else AgreementLevel.DIFFERENT
    level = AgreementLevel.ROUNDING if close and not course.diverges else level
    return Agreement(level, course.until, score, gap, noise, source)


class Course(NamedTuple):
    """Comparison of two histories; steps and figures that only one has do not count, nor do speeds.

    Attributes:
        parted: First step at which a figure differs; ``None`` if none does.
        until: Last step before the first one at which a loss differs by more than rounding; ``None`` if there is none.
        diverges: True if there is such a loss.
    """

    parted: int | None
    until: int | None
    diverges: bool


def course_of(run: Run, again: Run) -> Course:
    """Compare the histories of two runs, step by step; figures have a slash in their names, losses end in "loss"."""
    others: dict[int, dict[str, Any]] = defaultdict(dict)
    for row in again.history.rows():
        others[row["step"]] |= row
    parted = until = None
    for step, rows in itertools.groupby(run.history.rows(), key=itemgetter("step")):
        figures = {name: value for row in rows for name, value in row.items()}
        other = others.get(step)
        if other is None:
            continue
        common = [name for name in figures if "/" in name and name in other and not name.endswith("_per_second")]
        if parted is None and not all(same(figures[name], other[name]) for name in common):
            parted = step
        if not all(_alike(figures[name], other[name]) for name in common if name.endswith("loss")):
            return Course(parted, until, diverges=True)
        until = step
    return Course(parted, until, diverges=False)


def same(one: Any, other: Any) -> bool:
    """Return True if both are equal, None, or NaN."""
    return one == other or (isinstance(one, float) and isinstance(other, float) and isnan(one) and isnan(other))


def _alike(first: Any, second: Any) -> bool:
    """Return True if two values differ by at most 0.1 %, or 10⁻⁶.

    Values that are no numbers must be equal.
    """
    try:
        return math.isclose(float(first), float(second), rel_tol=ROUNDING, abs_tol=1e-6)
    except (TypeError, ValueError):
        return first == second


def _noise(run: Run, score: str) -> tuple[float | None, str]:
    """Return the noise of a score and its source in words.

    It needs at least three finished runs of the same settings in the run's folder, itself included. It is then the
    difference that two seeds exceed in 5 % of cases: t · √2 · s. Otherwise it is half the width of the score's interval
    over test items. Without one, the result is (None, "").
    """
    settings = _settings(run)
    values = []
    for other in list_runs(run.path.parent):
        value = other.score(score) if other.state == State.DONE else None
        if value is not None and _settings(other) == settings:
            values.append(value)
    if len(values) >= LEAST_SEEDS:
        spread = stdev(values) * math.sqrt(2)
        return t_quantile(0.975, len(values) - 1) * spread, f"{len(values)} seeds of these settings"
    entry = run.metrics().get(score)
    interval = entry.get("ci") if isinstance(entry, dict) else None
    if interval:
        return (interval[1] - interval[0]) / 2, "interval over test items; fewer than three seeds are here"
    return None, ""


def _settings(run: Run) -> object:
    """Return a run's identity without the seed; its id if it has none on record."""
    identity = run.identity()
    if identity is None:
        return run.id
    return {**identity, "values": {key: value for key, value in identity["values"].items() if key != "seed"}}
