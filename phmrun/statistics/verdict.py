"""Verdicts on systems that share a reference, from simultaneous intervals.

1. different: the interval leaves 0 out; better or worse.
2. untrained: the reference does not beat its best floor (a trivial system) significantly.
3. equivalent: the interval lies within ±margin.
4. not-worse: the interval lies above -margin.
5. untrained: the system itself does not beat its best floor.
6. undecided: none of these; a reason says why if it is not the interval.

The first that holds is the verdict. All statements of one table hold together with probability 1 - level, since each is
a property of a simultaneous interval. A floor is passed if the 95 % interval of the difference from it lies above 0. No
correction is needed, since a verdict that depends on it needs both (Berger 1982, intersection-union).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance

from phmrun.statistics.collapse import collapsed, fisher_exact
from phmrun.statistics.items import ItemVariance
from phmrun.statistics.welch import LEVEL, Design, Difference, difference, error_and_freedom, seeds_needed, studentised


class Verdict(StrEnum):
    """Statement on a system and its reference."""

    DIFFERENT = "different"
    UNTRAINED = "untrained"
    EQUIVALENT = "equivalent"
    NOT_WORSE = "not-worse"
    UNDECIDED = "undecided"


BELOW_FLOOR = "the reference does not beat its best floor"
DECIDED = (Verdict.DIFFERENT, Verdict.EQUIVALENT, Verdict.NOT_WORSE)


class Population(StrEnum):
    """Population over which a verdict generalizes."""

    SEEDS = "seeds"  # training again with other seeds; the test set is fixed
    ITEMS = "items"  # other test items; the trained models are fixed
    BOTH = "both"


@dataclass(frozen=True)
class Question:
    """Terms of a comparison, the same for all systems of a table.

    Attributes:
        margin: Difference that counts as none, in units of the score; ``None``: only differences are sought.
        lower_is_better: Direction of the score.
        level: Probability of any false statement, over all systems and looks.
        looks: Seeds at each planned look; empty: one look.
        over: Population.
    """

    margin: float | None = None
    lower_is_better: bool = False
    level: float = LEVEL
    looks: tuple[int, ...] = ()
    over: Population = Population.SEEDS

    def design(self, rows: int) -> Design:
        """Return the design for a number of systems.

        The reference is not counted. The design has the looks and the level, whatever the population.
        """
        return Design(rows, self.looks, self.level)


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


def judge(
    systems: Mapping[str, Sequence[float]],
    reference: Sequence[float],
    question: Question,
    *,
    floors: Sequence[Sequence[float]] = (),
    items: Mapping[str, ItemVariance] | None = None,
    rows: int = 0,
) -> dict[str, Judgement]:
    """Judge every system by the scores of its seeds.

    Scores are in the order of the seeds. Each verdict is the one at the first deciding look, else at the last one that
    both sides have enough seeds for; later seeds wait for the next look. Without a look it is that of all scores. The
    level is shared by all systems. The judgements are by name, in the order of ``systems``.

    Args:
        systems: Scores by system; NaN marks a diverged seed.
        reference: Scores of the reference.
        question: Margin, direction, level, looks and population.
        floors: Scores of the trivial systems that a trained one must beat; a single value is a constant.
        items: Variance over test items by system, if the items are known.
        rows: Systems that share the level, if more than ``systems``.
    """
    design = question.design(max(len(systems), rows, 1))
    judged = {}
    for name, scores in systems.items():
        shared = (items or {}).get(name)
        judged[name] = _first_decided(scores, reference, question, design, floors, shared)
    return judged


def _first_decided(
    scores: Sequence[float],
    reference: Sequence[float],
    question: Question,
    design: Design,
    floors: Sequence[Sequence[float]],
    items: ItemVariance | None,
) -> Judgement:
    """Return the judgement at the first deciding look, else at the last one reached.

    DIFFERENT, EQUIVALENT and NOT_WORSE decide; UNTRAINED does not. A look takes the first scores of both sides, so that
    later seeds of the reference, trained for other systems, change nothing; only the last one takes the items. Before
    the first look, and without looks, all scores are judged. Repeated confidence intervals allow any stopping rule.
    """
    looks = [look for look in question.looks if look <= min(len(scores), len(reference))]
    for look in looks[:-1]:
        at_look = _judge_one(scores[:look], reference[:look], question, design, floors, None)
        if at_look.verdict in DECIDED:
            return at_look
    last = looks[-1] if looks else None
    return _judge_one(scores[:last], reference[:last], question, design, floors, items)


def beats_floors(scores: Sequence[float], floors: Sequence[Sequence[float]], *, lower_is_better: bool) -> bool | None:
    """True if the mean beats every floor with 95 % confidence.

    Only finite scores count. A single run beats a floor if its score is better. ``None`` without floors; ``False``
    without a finite score.
    """
    if not floors:
        return None
    finite = [score for score in scores if math.isfinite(score)]
    return bool(finite) and all(_beats(finite, floor, lower_is_better=lower_is_better) for floor in floors)


def _beats(scores: Sequence[float], floor: Sequence[float], *, lower_is_better: bool) -> bool:
    """True if the 95 % interval of the gain over a floor lies above 0.

    With a single score, its gain alone decides. A floor with several values adds their variance; a single value is a
    constant. The interval is that of one system at one look.
    """
    gain = fmean(scores) - fmean(floor)
    gain = -gain if lower_is_better else gain
    if len(scores) < 2 or gain <= 0:
        return gain > 0
    parts, smallest = [(variance(scores) / len(scores), len(scores) - 1.0)], len(scores) - 1.0
    if len(floor) > 1:
        parts.append((variance(floor) / len(floor), len(floor) - 1.0))
        smallest = min(smallest, len(floor) - 1.0)
    error, freedom = error_and_freedom(parts, smallest)
    shown = studentised(gain, error, freedom, (len(scores), len(floor)), Design())
    return shown.low > 0


def _judge_one(
    scores: Sequence[float],
    reference: Sequence[float],
    question: Question,
    design: Design,
    floors: Sequence[Sequence[float]],
    items: ItemVariance | None,
) -> Judgement:
    """Return the judgement of one system at one look.

    Over items, seeds are not checked for collapse. Over seeds, collapsed ones on either side give no difference:
    UNTRAINED if all of a side collapsed or an uncollapsed reference does not beat its floors, else UNDECIDED; their
    numbers and Fisher's p-value are kept. Without an interval or spread, UNTRAINED if a floor is not beaten and no
    looks are planned, else UNDECIDED with a reason.
    Otherwise the verdict is that of :func:`_verdict`; an undecided one over seeds has the seeds needed.
    """
    lower = question.lower_is_better
    trained = beats_floors(scores, floors, lower_is_better=lower)
    passed = beats_floors(reference, floors, lower_is_better=lower)
    judgement = Judgement(Verdict.UNDECIDED, trained=trained, seeds=(len(scores), len(reference)))
    if items is not None:
        fixed = _over_items(items, question.design(1))
        judgement = replace(judgement, over_items=(fixed.low, fixed.high))
    if question.over is Population.ITEMS:
        shown = _over_items(items, design) if items is not None else None
        reason = "" if shown else "the items of both are not known"
    else:
        lost = collapsed(scores, lower_is_better=lower), collapsed(reference, lower_is_better=lower)
        counts = len(lost[0]), len(lost[1])
        if any(counts):
            p = fisher_exact((counts[0], len(scores)), (counts[1], len(reference)))
            reason = f"collapsed seeds: {counts[0]} of {len(scores)}, reference {counts[1]} of {len(reference)}"
            untrained = passed is False and not counts[1]
            reason += f"; {BELOW_FLOOR}" if untrained else ""
            lost_all = counts[0] == len(scores) or counts[1] == len(reference)
            verdict = Verdict.UNTRAINED if lost_all or untrained else Verdict.UNDECIDED
            return replace(judgement, verdict=verdict, reason=reason, collapsed=counts, p_collapsed=p)
        shown, reason = _over_seeds(scores, reference, question, design, items)
    verdict, why = _verdict(shown, question, (trained, passed))
    if reason and (verdict is not Verdict.UNTRAINED or question.looks):
        verdict, why = Verdict.UNDECIDED, reason
    judgement = replace(judgement, verdict=verdict, reason=why)
    if shown is None:
        return judgement
    needed = None
    if verdict is Verdict.UNDECIDED and question.over is Population.SEEDS and not reason:
        needed = _needed(scores, reference, shown, question, design)
    return replace(judgement, difference=shown, better=shown.value < 0 if lower else shown.value > 0, needed=needed)


def _over_seeds(
    scores: Sequence[float],
    reference: Sequence[float],
    question: Question,
    design: Design,
    items: ItemVariance | None,
) -> tuple[Difference | None, str]:
    """Return the difference over seeds.

    An empty reason follows it; without a difference, ``None`` and the reason. A difference without any spread has a
    reason, too. If the population is both, items are included.
    """
    least = min(len(scores), len(reference))
    if least < 2:
        return None, "a single seed has no spread over training"
    if question.looks and least < question.looks[0]:
        return None, f"the first look is at {question.looks[0]} seeds"
    added = None
    if question.over is Population.BOTH:
        if items is None:
            return None, "the items of both are not known"
        of_seeds = variance(scores) / len(scores) + variance(reference) / len(reference)
        added = (items.beside_seeds(of_seeds), items.freedom)
    shown = difference(scores, reference, design, added)
    if shown is not None and not shown.error:
        return shown, "all seeds of both have the same score: no spread to judge by"
    return shown, ""


def _over_items(items: ItemVariance, design: Design) -> Difference:
    """Return the difference of mean scores over test items.

    The runs at hand are fixed. The interval is Student's, with the items' degrees of freedom, for a single look.
    """
    value = fmean(items.scores[0]) - fmean(items.scores[1])
    error, freedom = error_and_freedom([(items.of_items, items.freedom)], items.freedom)
    seeds = len(items.scores[0]), len(items.scores[1])
    return studentised(value, error, freedom, seeds, Design(design.rows, (), design.level))


def _verdict(
    shown: Difference | None, question: Question, trained: tuple[bool | None, bool | None]
) -> tuple[Verdict, str]:
    """Return the first verdict that the interval supports.

    A reason follows it for UNTRAINED, else an empty text. An interval without spread never shows a difference; without
    an interval, the verdict is UNTRAINED or UNDECIDED. ``trained``: system and reference beat their floors; ``None``
    without floors.
    """
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


def _needed(
    scores: Sequence[float], reference: Sequence[float], shown: Difference, question: Question, design: Design
) -> int | None:
    """Return the fewest seeds likely to decide.

    They show the measured difference or, with a margin, that the system is not worse by the margin: the smaller of the
    two numbers. The result is ``None`` if neither is known, see :func:`phmrun.statistics.welch.seeds_needed`.
    """
    gain = -shown.value if question.lower_is_better else shown.value
    targets = [abs(shown.value)]
    if question.margin:
        targets.append(gain + question.margin)
    counts = [seeds_needed(scores, reference, target, design) for target in targets]
    return min((count for count in counts if count is not None), default=None)
