"""Verdicts on systems from scores in long form, also of systems trained elsewhere.

    decision = phmrun.decide(rows, reference="dense", metric="bleu", margin=0.5)
    decision.judgements["phm"].verdict

With items, the score of a seed is the mean over its items. Rows without seeds are fixed models, whose verdict is over
test items. With trials, each seed keeps the one with the best validation metric, so that seeds are independent samples
of the whole procedure, search included.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev
from typing import Any

from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.statistics.items import ItemVariance, variance_of_means
from phmrun.statistics.long_form import Row, choose_metric, rows_of_table
from phmrun.statistics.units import direction_of, direction_of_choice, require_units
from phmrun.statistics.verdict import Judgement, Population, Question, Verdict, beats_floors, judge


@dataclass(frozen=True)
class System:
    """Scores of one system.

    Attributes:
        name: Its name.
        scores: Score of each seed, in the order of the seeds.
        items: Values of each seed by item; empty if the file has no items.
        trials: Largest number of trials of a seed.
    """

    name: str
    scores: tuple[float, ...]
    items: tuple[dict[str, float], ...]
    trials: int


@dataclass(frozen=True)
class Decision:
    """Verdicts on all systems against one reference.

    Attributes:
        metric: Name of the score.
        question: Margin, direction, level and looks.
        reference: System that the others are compared with.
        systems: The others, by name.
        trivial: Trivial system that a trained one must beat; ``None`` without one.
        trained: True if the reference beats it; ``None`` without one.
        judgements: Judgement by system.
        estimand: Estimated quantity, in words.
        costs: Mean of each cost metric by system, the reference included.
    """

    metric: str
    question: Question
    reference: System
    systems: dict[str, System]
    trivial: System | None
    trained: bool | None
    judgements: dict[str, Judgement]
    estimand: str
    costs: dict[str, dict[str, float]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers for JSON.

        Keys: metric, estimand, the fields of the question (margin, lower_is_better, level, looks, over), reference,
        trivial (``None`` without one), and systems, by name. Reference and trivial have name, mean, std and seeds; the
        reference also has trained and costs. See :meth:`_of` for the others.
        """
        reference = _numbers(self.reference) | {"trained": self.trained, "costs": self._costs(self.reference.name)}
        return {
            "metric": self.metric,
            "estimand": self.estimand,
            **asdict(self.question),
            "reference": {"name": self.reference.name} | reference,
            "trivial": {"name": self.trivial.name} | _numbers(self.trivial) if self.trivial else None,
            "systems": {name: self._of(name) for name in self.systems},
        }

    def _of(self, name: str) -> dict[str, Any]:
        """Return the numbers of one system for JSON.

        Keys: verdict, better, difference, interval (low, high), p, detectable, look, interval_over_items, more_seeds,
        collapsed, p_collapsed, trained, reason, mean, std, seeds, costs. Missing ones are ``None``. ``more_seeds`` is
        the number of further seeds likely to decide, at least 1.
        """
        judgement, numbers = self.judgements[name], _numbers(self.systems[name])
        shown = judgement.difference
        needed, count = judgement.needed, min(numbers["seeds"], len(self.reference.scores))
        return {
            "verdict": str(judgement.verdict),
            "better": judgement.better,
            "difference": shown.value if shown else None,
            "interval": [shown.low, shown.high] if shown else None,
            "p": shown.p if shown else None,
            "detectable": shown.detectable if shown else None,
            "look": shown.look if shown else None,
            "interval_over_items": list(judgement.over_items) if judgement.over_items else None,
            "more_seeds": max(needed - count, 1) if needed is not None else None,
            "collapsed": list(judgement.collapsed),
            "p_collapsed": judgement.p_collapsed,
            "trained": judgement.trained,
            "reason": judgement.reason or None,
            **numbers,
            "costs": self._costs(name),
        }

    def _costs(self, system: str) -> dict[str, float | None]:
        """Return a system's costs by name.

        A cost that the file lacks is ``None``.
        """
        return {name: means.get(system) for name, means in self.costs.items()}


def decide(
    rows: Any,
    *,
    reference: str,
    metric: str,
    trivial: str | None = None,
    margin: float | None = None,
    lower_is_better: bool | None = None,
    looks: Sequence[int] = (),
    over: str | None = None,
    choose_by: str | None = None,
    level: float = Question.level,
    costs: Sequence[str] = (),
    family: int = 0,
) -> Decision:
    """Judge systems by their scores in long form.

    The trivial system, unless it is the reference, is only a floor and gets no judgement.

    Args:
        rows: A pandas data frame or mappings with ``system``, ``metric``, ``value`` and optionally ``seed``, ``item``,
            ``trial``; or rows read by :func:`phmrun.statistics.long_form.read_rows`.
        reference: System that all others are compared with.
        metric: The metric that decides.
        trivial: A trivial system that a trained one must beat, such as the majority class.
        margin: Largest difference that counts as none, in units of the metric; not given or 0: test for differences
            only.
        lower_is_better: Direction of the metric, and of a ``choose_by`` whose name says no other. None: that of the
            registered metric; of others, higher is better unless the name speaks against it.
        looks: Seeds at each planned look, fixed before the first; empty: a single look.
        over: "seeds", "items" or "both"; by default seeds, or items if the rows have items but no seeds.
        choose_by: Validation metric by which each seed chooses among its trials.
        level: Probability of any false statement.
        costs: Metrics to show beside the verdicts, such as parameters or seconds; they decide nothing.
        family: Comparisons that share the level, if more than the systems beside the reference.

    Raises:
        PhmrunError: (exit 2) A name or a direction is unknown, or the margin is negative, infinite or in another unit
            than the values. (exit 3) There are no rows, no system beside the reference, a value is out of its metric's
            bounds, or the rows contradict each other.
        ValueError: ``over`` is unknown.
    """
    table = _rows(rows)
    if not table:
        raise PhmrunError("there are no scores", code=ExitCode.DATA)
    if margin is not None and not 0 <= margin < math.inf:
        raise PhmrunError(f"a margin is a number from 0 on, not {margin}", where="--margin")
    lower = direction_of(choose_metric(table, metric)[0].metric, lower_is_better)
    chosen, counts = _chosen(table, metric, choose_by, lower, lower_is_better)
    require_units(chosen, margin, lower_is_better=lower)
    names = list(dict.fromkeys(row.system for row in chosen))
    for name, option in ((reference, "--reference"), (trivial, "--trivial")):
        if name is not None and name not in names:
            raise unknown("system", name, names, where=option)
    systems = {name: _system([row for row in chosen if row.system == name], counts[name]) for name in names}
    seedless = not any(row.seed for row in chosen)
    items_known = all(system.items for name, system in systems.items() if name != trivial)
    population = Population(over) if over else Population.ITEMS if seedless and items_known else Population.SEEDS
    question = Question(margin or None, lower, level, tuple(looks), population)
    dense, floor = systems.pop(reference), systems.pop(trivial, None) if trivial is not None else None
    if not systems:
        scored = f" with {chosen[0].metric}" if any(row.system != reference for row in table) else ""
        raise PhmrunError(f"there is no system beside {reference}{scored}", where=chosen[0].where, code=ExitCode.DATA)
    floors = [floor.scores] if floor else []
    variances = {name: shared for name, system in systems.items() if (shared := _shared_items(system, dense))}
    judged = judge(
        {name: system.scores for name, system in systems.items()},
        dense.scores,
        question,
        floors=floors,
        items=variances,
        rows=family,
    )
    trained = beats_floors(dense.scores, floors, lower_is_better=lower)
    trials = max([dense.trials, *(system.trials for system in systems.values())])
    return Decision(
        chosen[0].metric,
        question,
        dense,
        systems,
        floor,
        trained,
        judged,
        _estimand(question, trials, choose_by),
        {name: _means(choose_metric(table, name, "--cost")) for name in costs},
    )


def decide_pairs(rows: Any, *, metric: str, trivial: str | None = None, **terms: Any) -> list[Decision]:
    """Judge every system beside every other, simultaneously over all pairs.

    The trivial system is in no pair. Systems are in the order of the rows.

    Args:
        rows: As in :func:`decide`.
        metric: The metric that decides.
        trivial: A trivial system that a trained one must beat.
        terms: Further arguments of :func:`decide`, except ``reference`` and ``family``.

    Returns:
        A decision for each system but the last, with that system as its reference and all later ones beside it.

    Raises:
        PhmrunError: As :func:`decide`; (exit 3) there are fewer than two systems.
    """
    table = _rows(rows)
    scored = choose_metric(table, metric) if table else []
    names = [name for name in dict.fromkeys(row.system for row in scored) if name != trivial]
    if len(names) < 2:
        raise PhmrunError(f"all pairs need two systems with {metric}, not {len(names)}", code=ExitCode.DATA)
    terms |= {"metric": metric, "trivial": trivial, "family": math.comb(len(names), 2)}
    first = decide(table, reference=names[0], **terms)
    terms["over"] = first.question.over  # of all systems, also where later ones alone would have another default
    later = [(name, {trivial, *names[place:]}) for place, name in enumerate(names[:-1])][1:]
    return [first] + [
        decide([row for row in table if row.system in kept], reference=name, **terms) for name, kept in later
    ]


def _rows(rows: Any) -> list[Row]:
    """Return rows in long form: unchanged if they were read as such, else of a data frame or mappings."""
    return list(rows) if isinstance(rows, list) and rows and isinstance(rows[0], Row) else rows_of_table(rows)


def _means(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean of all values by system, over seeds, items and trials."""
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.system, []).append(row.value)
    return {name: fmean(numbers) for name, numbers in values.items()}


def _chosen(
    rows: Sequence[Row], metric: str, choose_by: str | None, lower: bool, stated: bool | None
) -> tuple[list[Row], dict[str, int]]:
    """Return the rows of the metric, of each seed's best trial, and the most trials of a seed by system.

    The best trial has the best mean of ``choose_by``, the first of equal ones; trials that are not finite come last.
    ``lower`` is the direction of the metric; that of ``choose_by`` is :func:`direction_of_choice`. A seed with a single
    trial, such as that of a trivial system, needs no validation.

    Raises:
        PhmrunError: (exit 3) A seed has several trials without ``choose_by``, or one of several has no validation
            score. (exit 2) A metric is unknown.
    """
    kept = choose_metric(rows, metric)
    trials: dict[tuple[str, str], dict[str, Row]] = {}
    for row in kept:
        trials.setdefault((row.system, row.seed), {}).setdefault(row.trial, row)
    counts: dict[str, int] = {}
    for (system, _), by_trial in trials.items():
        counts[system] = max(counts.get(system, 0), len(by_trial))
    if max(counts.values(), default=1) == 1:
        return kept, counts
    if choose_by is None:
        first = next(row for by_trial in trials.values() if len(by_trial) > 1 for row in list(by_trial.values())[1:])
        raise PhmrunError(
            f"the seed {first.seed} of {first.system} has several trials",
            where=first.where,
            hint="--choose-by METRIC names the validation metric by which each seed keeps one.",
            code=ExitCode.DATA,
        )
    validation: dict[tuple[str, str], dict[str, list[float]]] = {}
    validated = choose_metric(rows, choose_by, "--choose-by")
    sign = -1.0 if direction_of_choice(validated[0].metric, kept[0].metric, lower, stated) else 1.0
    for row in validated:
        validation.setdefault((row.system, row.seed), {}).setdefault(row.trial, []).append(row.value)
    best: dict[tuple[str, str], str] = {}
    for key, by_trial in trials.items():
        if len(by_trial) == 1:
            best[key] = next(iter(by_trial))
            continue
        if missing := [trial for trial in by_trial if trial not in validation.get(key, {})]:
            row = by_trial[missing[0]]
            raise PhmrunError(f"the trial {row.trial} has no {choose_by}", where=row.where, code=ExitCode.DATA)
        means = {trial: sign * fmean(values) for trial, values in validation[key].items() if trial in by_trial}
        best[key] = max(means, key=lambda trial: means[trial] if math.isfinite(means[trial]) else -math.inf)
    return [row for row in kept if row.trial == best[row.system, row.seed]], counts


def _system(rows: Sequence[Row], trials: int) -> System:
    """Return the scores of one system by seed, each of which has chosen among at most ``trials`` trials.

    Seeds are sorted by length, then as text. With items, a score is the mean over them.

    Raises:
        PhmrunError: (exit 3) A score occurs twice, or only some scores of a seed have an item.
    """
    name, by_seed = rows[0].system, dict[str, dict[str, Row]]()
    for row in rows:
        earlier = by_seed.setdefault(row.seed, {}).setdefault(row.item, row)
        if earlier is not row:
            what = f"{name} has two scores of seed {row.seed or '(none)'}"
            what += f", item {row.item}" if row.item else ""
            raise PhmrunError(what, where=row.where, hint=f"The other is at {earlier.where}.", code=ExitCode.DATA)
        if len(by_seed[row.seed]) > 1 and "" in by_seed[row.seed]:
            raise PhmrunError(
                f"some scores of {name}, seed {row.seed}, have an item and some not",
                where=row.where,
                code=ExitCode.DATA,
            )
    ordered = sorted(by_seed.items(), key=lambda pair: (len(pair[0]), pair[0]))
    scores = tuple(fmean(row.value for row in by_item.values()) for _, by_item in ordered)
    has_items = all("" not in by_item for by_item in by_seed.values())
    items = tuple({item: row.value for item, row in by_item.items()} for _, by_item in ordered) if has_items else ()
    return System(name, scores, items, trials)


def _shared_items(system: System, reference: System) -> ItemVariance | None:
    """Return the variance over the items of both systems.

    The result is ``None`` if either has no items.

    Raises:
        PhmrunError: (exit 3) The runs have different items.
    """
    if not system.items or not reference.items:
        return None
    keys = list(reference.items[0])
    for run in (*system.items, *reference.items):
        if run.keys() != set(keys):
            odd = sorted(set(keys) ^ run.keys())[0]
            raise PhmrunError(
                f"{system.name} and {reference.name} were not scored on the same items, such as {odd}",
                code=ExitCode.DATA,
            )
    import numpy as np

    sides = [[np.array([run[key] for key in keys]) for run in side.items] for side in (system, reference)]
    return variance_of_means(sides[0], sides[1])


def _estimand(question: Question, trials: int, choose_by: str | None) -> str:
    """Return the estimated quantity in words.

    It names the population of the question, and the choice among trials if there are several.
    """
    if question.over is Population.ITEMS:
        return "difference of the scores of these very models, over test items like these"
    over = "training seeds; the test set is fixed"
    if question.over is Population.BOTH:
        over = "training seeds and test items"
    settings = "at these settings"
    if trials > 1:
        settings = f"after choosing among {trials} trials by {choose_by} within each seed"
    return f"difference of the mean scores over {over}; {settings}"


def _numbers(system: System) -> dict[str, Any]:
    """Return mean, standard deviation and number of seeds.

    Keys: mean, std, seeds. Only finite scores count for the first two. The mean is ``None`` without finite scores, the
    deviation for fewer than two.
    """
    finite = [score for score in system.scores if math.isfinite(score)]
    return {
        "mean": fmean(finite) if finite else None,
        "std": stdev(finite) if len(finite) > 1 else None,
        "seeds": len(system.scores),
    }


def meets(judgement: Judgement, requirement: str) -> bool:
    """True if a verdict shows that a system is "better", or "not-worse".

    A better or equivalent system is not worse, too. Any other requirement counts as "not-worse".
    """
    better = judgement.verdict is Verdict.DIFFERENT and bool(judgement.better)
    if requirement == "better":
        return better
    return better or judgement.verdict in (Verdict.EQUIVALENT, Verdict.NOT_WORSE)
