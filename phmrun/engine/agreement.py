"""Verdict on a repeated run: identical, same up to rounding, within noise, or different."""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import stdev
from typing import Any

from phmrun.documents import flat
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.listing import list_runs
from phmrun.ledger.recorded_config import config_values
from phmrun.ledger.scores import score_value
from phmrun.statistics.student import t_quantile

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


def agreement(run: Run, again: Run, *, identical: bool) -> Agreement:
    """Return the verdict on a run and its repetition.

    Histories and main scores are compared. The outcome is "rounding" if losses and scores agree. Common losses then
    differ by at most a relative 10⁻³, scores by 10⁻³ (relative or absolute). It is "noise" if the scores differ by no
    more than the noise. Otherwise it is "different": if the noise is unknown, too, or a run has no main score.

    Args:
        run: Original run.
        again: Repeated run.
        identical: True if all weights and scores are equal; nothing else is compared then.
    """
    if identical:
        return Agreement(AgreementLevel.IDENTICAL, None)
    until, parted = _common_course(run, again)
    score = run.main_score or ""
    before, after = (score_value(side.metrics().get(score)) for side in (run, again))
    if before is None or after is None:
        return Agreement(AgreementLevel.DIFFERENT, until, score)
    gap = after - before
    noise, source = _noise(run, score)
    close = math.isclose(before, after, rel_tol=ROUNDING, abs_tol=ROUNDING)
    if not parted and close:
        return Agreement(AgreementLevel.ROUNDING, until, score, gap, noise, source)
    within = noise is not None and abs(gap) <= noise
    return Agreement(AgreementLevel.NOISE if within else AgreementLevel.DIFFERENT, until, score, gap, noise, source)


def _common_course(run: Run, again: Run) -> tuple[int | None, bool]:
    """Return the last step with equal losses; True if a later one differs.

    Losses are the figures whose names end in "loss", equal up to a relative 10⁻³. The search ends at the first step
    that differs. Steps and losses that only one run has are skipped. The step is None if the first common one differs,
    or there is none.
    """
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


def _settings(run: Run) -> dict[str, Any]:
    """Return a run's configuration by dotted key, without seed, hardware and logging.

    If it cannot be read, return only the run's id, which equals no other.
    """
    try:
        values = config_values(run.config_path)
    except PhmrunError:
        return {"run": run.id}
    kept = {key: value for key, value in values.items() if key not in ("seed", "hardware", "logging")}
    return flat(kept)
