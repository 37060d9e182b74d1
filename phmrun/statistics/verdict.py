"""Verdicts on systems that share a reference, from simultaneous intervals.

1. untrained: neither beats its best floor (a trivial system) significantly.
2. different: the interval leaves 0 out; better or worse.
3. untrained: the reference does not beat its best floor.
4. equivalent: the interval lies within ±margin.
5. not-worse: the interval lies above -margin.
6. untrained: the system itself does not beat its best floor.
7. undecided: none of these; a reason says why if it is not the interval.

The first that holds is the verdict. All statements of one table hold together with probability 95 %, since each is a
property of a simultaneous interval. A floor is passed if the 95 % interval of the difference from it lies above 0. No
correction is needed, since a verdict that depends on it needs both (Berger 1982, intersection-union).

If one of six seeds stayed at chance, no method for the mean's interval holds its level. Such *collapsed* seeds are
therefore detected, counted, and compared by Fisher's exact test (1935); the means of that row get no verdict but one
against it that holds without them, too: setting them aside raises its mean. Beside a reference with collapsed seeds
these are "better" and "not worse", for a system with some "worse". The j worst of n seeds have collapsed if every one
of them lies further below the mean of the others than

    t(1 - 0.01 / C(n, j), n - j - 1) · s · √(1 + 1 / (n - j))

with s the standard deviation of the others (Grubbs 1969, with the studentized distance of a new observation). At most
half of the seeds can collapse, and at least three must remain. At most 1 % of the rows of normal scores are flagged for
each j. A seed with a score that is not finite has diverged, and counts as collapsed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance
from typing import Any, TypeVar

from scipy.special import stdtr

from phmrun.statistics.items import ItemVariance
from phmrun.statistics.welch import Difference, difference, error_and_freedom, seeds_needed, studentised

Key = TypeVar("Key")  # of a system: its name, or its place in a table
FALSE_FLAGS = 0.01  # share of rows of normal scores in which seeds are flagged
_LEAST = 1e-300
"""Least probability of a tail; those of thousands of seeds are smaller than any float."""


class Verdict(StrEnum):
    """Statement on a system and its reference."""

    DIFFERENT = "different"
    UNTRAINED = "untrained"
    EQUIVALENT = "equivalent"
    NOT_WORSE = "not-worse"
    UNDECIDED = "undecided"


BELOW_FLOOR = "the reference does not beat its best floor"


class Population(StrEnum):
    """Population over which a verdict generalizes."""

    SEEDS = "seeds"  # training again with other seeds; the test set is fixed
    ITEMS = "items"  # other test items; the trained models are fixed


@dataclass(frozen=True)
class Question:
    """Terms of a comparison, the same for all systems of a table.

    Attributes:
        margin: Difference that counts as none, in units of the score; ``None``: only differences are sought.
        lower_is_better: Direction of the score.
        over: Population.
    """

    margin: float | None = None
    lower_is_better: bool = False
    over: Population = Population.SEEDS


@dataclass(frozen=True)
class Judgement:
    """A verdict with the numbers that it follows from.

    Attributes:
        verdict: The statement.
        better: True if the system's mean is the better one; ``None`` without a difference.
        difference: The simultaneous interval; ``None`` if there is none.
        reason: Reason of a verdict that does not follow from the interval; else empty.
        seeds: Seeds of the system and of the reference, collapsed ones included.
        collapsed: Collapsed seeds of the system and of the reference.
        p_collapsed: Fisher's exact test of equal shares of collapsed seeds; ``None`` if there are none.
        trained: True if the system beats its best floor; ``None`` without a floor.
        needed: Total seeds of each system likely to decide; ``None`` if unknown or decided.
        over_items: Interval over test items for the runs at hand; ``None`` without items.
    """

    verdict: Verdict
    better: bool | None = None
    difference: Difference | None = None
    reason: str = ""
    seeds: tuple[int, int] = (0, 0)
    collapsed: tuple[int, int] = (0, 0)
    p_collapsed: float | None = None
    trained: bool | None = None
    needed: int | None = None
    over_items: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the judgement for JSON.

        Keys: verdict, better, difference, interval (low, high), p, detectable, interval_over_items, reason, collapsed,
        p_collapsed, trained. Missing ones are ``None``, as are open ends.
        """
        shown = self.difference
        return {
            "verdict": str(self.verdict),
            "better": self.better,
            "difference": shown.value if shown else None,
            "interval": [end if math.isfinite(end) else None for end in (shown.low, shown.high)] if shown else None,
            "p": shown.p if shown else None,
            "detectable": shown.detectable if shown else None,
            "interval_over_items": list(self.over_items) if self.over_items else None,
            "reason": self.reason or None,
            "collapsed": list(self.collapsed),
            "p_collapsed": self.p_collapsed,
            "trained": self.trained,
        }


def judge(
    systems: Mapping[Key, Sequence[float]],
    reference: Sequence[float],
    question: Question,
    *,
    floors: Sequence[Sequence[float]] = (),
    items: Mapping[Key, ItemVariance] | None = None,
    rows: int = 0,
) -> dict[Key, Judgement]:
    """Judge every system by the scores of its seeds.

    The level is shared by all systems. The judgements are by name, in the order of ``systems``.

    Args:
        systems: Scores by system; NaN marks a diverged seed.
        reference: Scores of the reference.
        question: Margin, direction and population.
        floors: Scores of the trivial systems that a trained one must beat; a single value is a constant.
        items: Variance over test items by system, if the items are known.
        rows: Systems that share the level, if more than ``systems``.
    """
    shared, items = max(len(systems), rows, 1), items or {}
    return {
        name: _judge_one(scores, reference, question, shared, floors, items.get(name))
        for name, scores in systems.items()
    }


def beats_floors(scores: Sequence[float], floors: Sequence[Sequence[float]], *, lower_is_better: bool) -> bool | None:
    """True if the mean beats every floor with 95 % confidence.

    Only finite scores count. A single run beats a floor if its score is better. ``None`` without floors or scores, as
    of a row whose only seed chose its settings; ``False`` if no score is finite.
    """
    if not floors or not scores:
        return None
    finite = [score for score in scores if math.isfinite(score)]
    return bool(finite) and all(_beats(finite, floor, lower_is_better=lower_is_better) for floor in floors)


def _beats(scores: Sequence[float], floor: Sequence[float], *, lower_is_better: bool) -> bool:
    """True if the 95 % interval of the gain over a floor lies above 0.

    With a single score, its gain alone decides. A floor with several values adds their variance; a single value is a
    constant.
    """
    gain = fmean(scores) - fmean(floor)
    gain = -gain if lower_is_better else gain
    if len(scores) < 2 or gain <= 0:
        return gain > 0
    parts = [(variance(side) / len(side), len(side) - 1.0) for side in (scores, floor) if len(side) > 1]
    error, freedom = error_and_freedom(parts)
    return studentised(gain, error, freedom, (len(scores), len(floor))).low > 0


def _judge_one(
    scores: Sequence[float],
    reference: Sequence[float],
    question: Question,
    rows: int,
    floors: Sequence[Sequence[float]],
    items: ItemVariance | None,
) -> Judgement:
    """Return the judgement of one system.

    Over items, seeds are not checked for collapse. Over seeds, with collapsed ones: UNTRAINED if all of a side
    collapsed or an uncollapsed reference does not beat its floors, else that of :func:`_nevertheless`; their numbers
    and Fisher's p-value are kept. Without an interval or spread, UNTRAINED if a floor is not beaten, else UNDECIDED
    with a reason. Otherwise the verdict is that of :func:`_verdict`; an undecided one over seeds has the seeds needed.
    """
    lower = question.lower_is_better
    trained = beats_floors(scores, floors, lower_is_better=lower)
    passed = beats_floors(reference, floors, lower_is_better=lower)
    judgement = Judgement(Verdict.UNDECIDED, trained=trained, seeds=(len(scores), len(reference)))
    if items is not None:
        fixed = _over_items(items, 1)
        judgement = replace(judgement, over_items=(fixed.low, fixed.high))
    if question.over is Population.ITEMS:
        shown = _over_items(items, rows) if items is not None else None
        reason = "" if shown else "the items of both are not known"
    else:
        lost = [collapsed(side, lower_is_better=lower) for side in (scores, reference)]
        counts = len(lost[0]), len(lost[1])
        if any(counts):
            p = fisher_exact((counts[0], len(scores)), (counts[1], len(reference)))
            reason = f"outlying seeds: {counts[0]} of {len(scores)}, reference {counts[1]} of {len(reference)}"
            untrained = passed is False and not counts[1]
            reason += f"; {BELOW_FLOOR}" if untrained else ""
            judgement = replace(judgement, reason=reason, collapsed=counts, p_collapsed=p)
            if untrained or any(0 < gone == seeds for gone, seeds in zip(counts, judgement.seeds, strict=True)):
                return replace(judgement, verdict=Verdict.UNTRAINED)
            kept = [
                [value for place, value in enumerate(side) if place not in out]
                for side, out in ((scores, lost[0]), (reference, lost[1]))
            ]
            return _nevertheless(judgement, _over_seeds(kept[0], kept[1], rows)[0], question, (trained, passed))
        shown, reason = _over_seeds(scores, reference, rows)
    verdict, why = _verdict(shown, question, (trained, passed))
    if reason and verdict is not Verdict.UNTRAINED:
        verdict, why = Verdict.UNDECIDED, reason
    judgement = replace(judgement, verdict=verdict, reason=why)
    if shown is None:
        return judgement
    gain, needed = -shown.value if lower else shown.value, None
    if verdict is Verdict.UNDECIDED and question.over is Population.SEEDS and not reason:
        # The fewest seeds that show the measured difference or, with a margin, that the system is not worse by it.
        targets = [abs(gain), *([gain + question.margin] if question.margin else [])]
        enough = [seeds_needed(scores, reference, target, rows) for target in targets]
        needed = min((count for count in enough if count is not None), default=None)
    return replace(judgement, difference=shown, better=gain > 0, needed=needed)


def _nevertheless(
    judgement: Judgement,
    shown: Difference | None,
    question: Question,
    trained: tuple[bool | None, bool | None],
) -> Judgement:
    """Return a judgement with the interval of the uncollapsed seeds, and a verdict against the side of the others.

    The interval is open towards that side, since its mean is lower with its collapsed seeds. The judgement is returned
    unchanged if both sides have some, or ``shown``, the difference, is None.
    """
    if shown is None or all(judgement.collapsed):
        return judgement
    above = bool(judgement.collapsed[1]) is not question.lower_is_better
    p = shown.p if (shown.value > 0) is above else 1.0
    shown = replace(shown, p=p, high=math.inf) if above else replace(shown, p=p, low=-math.inf)
    verdict, why = _verdict(shown, question, trained)
    verdict = Verdict.UNDECIDED if verdict is Verdict.UNTRAINED else verdict
    better = (shown.value < 0) is question.lower_is_better
    side = "the reference" if judgement.collapsed[1] else "the system"
    reason = f"{judgement.reason}, set aside: with them {side} is worse still{f', and {why}' if why else ''}"
    return replace(judgement, verdict=verdict, better=better, difference=shown, reason=reason)


def _over_seeds(scores: Sequence[float], reference: Sequence[float], rows: int) -> tuple[Difference | None, str]:
    """Return the difference over seeds and an empty text; without one, or without spread, None and the reason."""
    shown = difference(scores, reference, rows)
    if shown is None:
        few = "a single seed has no spread over training"
        return None, few if scores and reference else "no seed is counted"
    return (shown, "") if shown.error else (None, "the seeds of each have one score: no spread to judge by")


def _over_items(items: ItemVariance, rows: int) -> Difference:
    """Return the difference of mean scores over test items.

    The runs at hand are fixed. The interval is Student's, with the items' degrees of freedom.
    """
    error, freedom = error_and_freedom([(items.of_items, items.freedom)])
    first, second = items.scores
    return studentised(fmean(first) - fmean(second), error, freedom, (len(first), len(second)), rows)


def _verdict(
    shown: Difference | None, question: Question, trained: tuple[bool | None, bool | None]
) -> tuple[Verdict, str]:
    """Return the first verdict that the interval supports.

    A reason follows it for UNTRAINED, else an empty text. An interval without spread never shows a difference; without
    an interval, the verdict is UNTRAINED or UNDECIDED. ``trained``: system and reference beat their floors; ``None``
    without floors.
    """
    if trained == (False, False):
        return Verdict.UNTRAINED, BELOW_FLOOR
    gains = (-math.inf, math.inf)
    if shown is not None:
        gains = (-shown.high, -shown.low) if question.lower_is_better else (shown.low, shown.high)
    if shown is not None and shown.error and (gains[0] > 0 or gains[1] < 0):
        return Verdict.DIFFERENT, ""
    if trained[1] is False:
        return Verdict.UNTRAINED, BELOW_FLOOR
    margin = question.margin or 0.0
    if margin and gains[0] > -margin:
        return (Verdict.EQUIVALENT if gains[1] < margin else Verdict.NOT_WORSE), ""
    if trained[0] is False:
        return Verdict.UNTRAINED, "it does not beat its best floor"
    return Verdict.UNDECIDED, ""


def collapsed(scores: Sequence[float], *, lower_is_better: bool = False) -> list[int]:
    """Return the indices of the collapsed seeds, ascending.

    They are the most seeds that the module's rule flags. Scores that are not finite always count, and are not among the
    rule's n.
    """
    broken = [place for place, score in enumerate(scores) if not math.isfinite(score)]
    gains = [(-score if lower_is_better else score, place) for place, score in enumerate(scores) if place not in broken]
    gains.sort()
    count, flagged = len(gains), 0
    mean = squares = 0.0  # of the others: mean and sum of squared deviations from it (Welford 1962)
    for worst in range(count - 1, 0, -1):
        others, gain = count - worst, gains[worst][0]
        step = (gain - mean) / others
        squares += (gain - mean) * (gain - mean - step)
        mean += step
        distance = mean - gains[worst - 1][0]
        if worst > count // 2 or others < 3 or distance <= 0:
            continue
        spread = math.sqrt(squares / (others - 1) * (1 + 1 / others))
        # The tail's probability is compared, since no float is that close to 1 for more than about 50 seeds.
        rare = max(math.exp(math.log(FALSE_FLAGS) - math.log(math.comb(count, worst))), _LEAST)
        if not spread or stdtr(others - 1, -distance / spread) < rare:
            flagged = max(flagged, worst)
    return sorted([*broken, *(place for _, place in gains[:flagged])])


def fisher_exact(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the two-sided p-value that two shares are equal.

    It sums the tables with these totals that are at most as likely as the observed one. Each share is ``(cases,
    total)``.
    """
    cases, total = first[0] + second[0], first[1] + second[1]
    possible = range(max(0, cases - second[1]), min(cases, first[1]) + 1)
    # Integers, so that ties are exact.
    ways = {count: math.comb(first[1], count) * math.comb(second[1], cases - count) for count in possible}
    return sum(way for way in ways.values() if way <= ways[first[0]]) / math.comb(total, cases)
