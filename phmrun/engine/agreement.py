"""Verdict on a run that was trained anew: identical, the same up to rounding, within seed noise, or different."""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import stdev
from typing import Any

from phmrun.documents import flat
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.listing import list_runs, score_value, summarise
from phmrun.ledger.run import config_values
from phmrun.statistics.student import t_quantile

ROUNDING = 1e-3  # relative difference of a figure of training that rounding alone may make at first
LEAST_SEEDS = 3  # runs of other seeds from which a spread is taken


class Outcome(StrEnum):
    """Agreement of two runs of one experiment."""

    IDENTICAL = "identical"
    ROUNDING = "the same up to rounding"
    NOISE = "the end within noise"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Agreement:
    """Agreement of a run with the same run trained anew.

    Attributes:
        outcome: The verdict.
        until: Last step of the histories at which the two agree up to rounding; ``None`` without a common step.
        score: Main score that was compared.
        gap: Its difference, the new run minus the old.
        noise: Difference that chance alone would exceed in 5 % of the cases; ``None`` if it is not known.
        source: Source of the noise, in words.
    """

    outcome: Outcome
    until: int | None
    score: str = ""
    gap: float | None = None
    noise: float | None = None
    source: str = ""

    @property
    def sentence(self) -> str:
        """Verdict in one sentence."""
        if self.outcome is Outcome.IDENTICAL:
            return "identical"
        course = (
            "no step of training agrees" if self.until is None else f"the same up to rounding until step {self.until:,}"
        )
        if self.outcome is Outcome.ROUNDING:
            return f"{self.outcome} over all steps; {self.score} differs by {self.gap:+.4g}"
        if self.gap is None:
            return f"{self.outcome}: {course}; no score to compare"
        if self.noise is None:
            return f"{self.outcome}: {course}; {self.score} differs by {self.gap:+.4g}, noise unknown"
        side = "within" if abs(self.gap) <= self.noise else "beyond"
        moved = f"{self.score} differs by {self.gap:+.4g}, {side} ±{self.noise:.4g} ({self.source})"
        return f"{self.outcome}: {course}; {moved}"


def agreement(run: Run, again: Run, *, identical: bool) -> Agreement:
    """Agreement of a run with the same one trained anew, by their histories and main scores."""
    if identical:
        return Agreement(Outcome.IDENTICAL, None)
    until, parted = _common_course(run, again)
    summary = summarise(run.path)
    score = (summary.main_score if summary else None) or ""
    before, after = (score_value(side.metrics().get(score)) for side in (run, again))
    if before is None or after is None:
        return Agreement(Outcome.DIFFERENT, until, score)
    gap = after - before
    noise, source = _noise(run, score)
    close = math.isclose(before, after, rel_tol=ROUNDING, abs_tol=ROUNDING)
    if not parted and close:
        return Agreement(Outcome.ROUNDING, until, score, gap, noise, source)
    within = noise is not None and abs(gap) <= noise
    return Agreement(Outcome.NOISE if within else Outcome.DIFFERENT, until, score, gap, noise, source)


def _common_course(run: Run, again: Run) -> tuple[int | None, bool]:
    """Last step at which both histories agree up to rounding; true if they part afterwards."""
    other = {row["step"]: row for row in again.history.rows() if "step" in row}
    until = None
    for row in run.history.rows():
        match = other.get(row.get("step"))
        if match is None:
            continue
        names = [name for name in row if name.endswith("loss") and name in match]
        if any(not _alike(row[name], match[name]) for name in names):
            return until, True
        until = int(row["step"])
    return until, False


def _alike(first: Any, second: Any) -> bool:
    try:
        return math.isclose(float(first), float(second), rel_tol=ROUNDING, abs_tol=1e-6)
    except (TypeError, ValueError):
        return first == second


def _noise(run: Run, score: str) -> tuple[float | None, str]:
    """Difference of two seeds that chance alone exceeds in 5 % of the cases, else the interval over test items."""
    settings = _settings(run)
    values = []
    for other in list_runs(run.path.parent):
        value = other.score(score) if other.state == State.DONE else None
        if value is not None and _settings(Run(other.path)) == settings:
            values.append(value)
    if len(values) >= LEAST_SEEDS:
        spread = stdev(values) * math.sqrt(2)
        return t_quantile(0.975, len(values) - 1) * spread, f"{len(values)} seeds of these settings"
    entry = run.metrics().get(score)
    interval = entry.get("ci") if isinstance(entry, dict) else None
    if interval:
        return (interval[1] - interval[0]) / 2, "interval over test items; fewer than three seeds are here"
    return None, ""


def _settings(run: Run) -> dict[str, Any]:
    """Configuration of a run without its seed and what does not count."""
    try:
        values = config_values(run.config_path)
    except PhmrunError:
        return {"run": run.id}
    kept = {key: value for key, value in values.items() if key not in ("seed", "hardware", "logging")}
    return flat(kept)
