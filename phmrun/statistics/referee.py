"""Verdicts on systems from scores in long form, also of systems trained elsewhere.

    decision = phmrun.decide(rows, reference="dense", metric="bleu", margin=0.5)
    decision.judgements["phm"].verdict

With items, the score of a seed is the mean over its items. Rows without seeds are fixed models, whose verdict is over
test items.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from pandas import DataFrame

from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.metric import PERCENT, find_direction, known_metric
from phmrun.statistics.items import ItemVariance, variance_of_means
from phmrun.statistics.long_form import bad, choose_metric, long_form
from phmrun.statistics.verdict import Judgement, Population, Question, Verdict, beats_floors, judge
from phmrun.statistics.welch import LEVEL, deviation_of

ESTIMANDS = {
    Population.SEEDS: "difference of the mean scores over training seeds; the test set is fixed; at these settings",
    Population.ITEMS: "difference of the scores of these very models, over test items like these",
}
ROUNDING = 1e-6  # of values at their bounds
LEAST_POINTS = 0.1
"""Margin from which on it is taken for percentage points, if all scores are between 0 and 1."""


@dataclass(frozen=True)
class System:
    """Scores of one system.

    Attributes:
        name: Its name.
        scores: Score of each seed, in the order of the seeds.
        items: Values of each seed by item; empty if the file has no items.
    """

    name: str
    scores: tuple[float, ...]
    items: tuple[dict[str, float], ...]

    @property
    def numbers(self) -> dict[str, Any]:
        """Mean, standard deviation and number of seeds, by the keys mean, std, seeds.

        Only finite scores count for the first two. The mean is ``None`` without finite scores, the deviation for fewer
        than two.
        """
        finite = [score for score in self.scores if math.isfinite(score)]
        return {"mean": fmean(finite) if finite else None, "std": deviation_of(finite), "seeds": len(self.scores)}


@dataclass(frozen=True)
class Decision:
    """Verdicts on all systems against one reference.

    Attributes:
        metric: Name of the score.
        question: Margin, direction and population.
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

        Keys: metric, estimand, the fields of the question (margin, lower_is_better, over), level, reference, trivial
        (``None`` without one), and systems, by name. Reference and trivial have name, mean, std and seeds; the
        reference also has trained and costs. See :meth:`_of` for the others.
        """
        facts = {"trained": self.trained, "costs": self._costs(self.reference.name)}
        return {
            "metric": self.metric,
            "estimand": self.estimand,
            **asdict(self.question),
            "level": LEVEL,
            "reference": {"name": self.reference.name, **self.reference.numbers, **facts},
            "trivial": {"name": self.trivial.name, **self.trivial.numbers} if self.trivial else None,
            "systems": {name: self._of(name) for name in self.systems},
        }

    def _of(self, name: str) -> dict[str, Any]:
        """Return the numbers of one system for JSON.

        Keys: those of :meth:`~phmrun.statistics.verdict.Judgement.as_dict`, more_seeds, mean, std, seeds, costs.
        ``more_seeds`` is the number of further seeds likely to decide, at least 1, or ``None``.
        """
        judgement, numbers = self.judgements[name], self.systems[name].numbers
        needed, count = judgement.needed, min(numbers["seeds"], len(self.reference.scores))
        return {
            **judgement.as_dict(),
            "more_seeds": max(needed - count, 1) if needed is not None else None,
            **numbers,
            "costs": self._costs(name),
        }

    def _costs(self, system: str) -> dict[str, float | None]:
        """Return a system's costs by name; ``None`` for one that the file lacks."""
        return {name: means.get(system) for name, means in self.costs.items()}


def decide(
    rows: Any,
    *,
    reference: str,
    metric: str,
    trivial: str | None = None,
    margin: float | None = None,
    lower_is_better: bool | None = None,
    over: str | None = None,
    costs: Sequence[str] = (),
    family: int = 0,
) -> Decision:
    """Judge systems by their scores in long form.

    The trivial system, unless it is the reference, is only a floor and gets no judgement.

    Args:
        rows: A pandas data frame or mappings with ``system``, ``metric``, ``value`` and optionally ``seed`` and
            ``item``.
        reference: System that all others are compared with.
        metric: The metric that decides.
        trivial: A trivial system that a trained one must beat, such as the majority class.
        margin: Largest difference that counts as none, in units of the metric; not given or 0: test for differences
            only.
        lower_is_better: Direction of the metric. None: that of the registered metric; of others, higher is better
            unless the name speaks against it.
        over: "seeds" or "items"; by default seeds, or items if the rows have items but no seeds.
        costs: Metrics to show beside the verdicts, such as parameters or seconds; they decide nothing.
        family: Comparisons that share the level, if more than the systems beside the reference.

    Raises:
        PhmrunError: (exit 2) A name or a direction is unknown, or the margin is negative, infinite or in another unit
            than the values. (exit 3) There are no rows, no system beside the reference, a value is out of its metric's
            bounds, or the rows contradict each other.
        ValueError: ``over`` is unknown.
    """
    table = long_form(rows, metric)
    if table.empty:
        raise bad("there are no scores", "")
    if margin is not None and not 0 <= margin < math.inf:
        raise PhmrunError(f"a margin is a number from 0 on, not {margin}", where="--margin")
    scored = choose_metric(table, metric)
    name = str(scored["metric"].iloc[0])
    lower = find_direction(name) if lower_is_better is None else lower_is_better
    if lower is None:
        what = f"it is not known whether lower or higher values of {name!r} are better"
        options = ("--lower-is-better", "--higher-is-better")
        raise PhmrunError(what, where="--metric", valid=options, hint="In Python, lower_is_better=True or False.")
    _require_units(scored, margin, lower_is_better=lower)
    systems = {str(key): _system(part) for key, part in scored.groupby("system", sort=False)}
    for wanted, option in ((reference, "--reference"), (trivial, "--trivial")):
        if wanted is not None and wanted not in systems:
            raise unknown("system", wanted, list(systems), where=option)
    if reference == trivial:
        raise PhmrunError("the trivial system is the reference itself", where="--trivial")
    seedless = not scored["seed"].any()
    items_known = all(system.items for system in systems.values() if system.name != trivial)
    population = Population(over) if over else Population.ITEMS if seedless and items_known else Population.SEEDS
    question = Question(margin or None, lower, population)
    dense, floor = systems.pop(reference), systems.pop(trivial, None) if trivial is not None else None
    if not systems:
        with_metric = f" with {name}" if (table["system"] != reference).any() else ""
        raise bad(f"there is no system beside {reference}{with_metric}", scored["where"].iloc[0])
    floors = [floor.scores] if floor else []
    variances = {key: shared for key, system in systems.items() if (shared := _shared_items(system, dense))}
    scores = {key: system.scores for key, system in systems.items()}
    judged = judge(scores, dense.scores, question, floors=floors, items=variances, rows=family)
    trained = beats_floors(dense.scores, floors, lower_is_better=lower)
    chosen = {key: choose_metric(table, key, "--cost").groupby("system")["value"] for key in costs}
    by_cost = {key: values.agg(fmean).to_dict() for key, values in chosen.items()}
    return Decision(name, question, dense, systems, floor, trained, judged, ESTIMANDS[question.over], by_cost)


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
    table = long_form(rows, metric)
    scored = table if table.empty else choose_metric(table, metric)
    names = [name for name in scored["system"].unique() if name != trivial]
    if len(names) < 2:
        raise bad(f"all pairs need two systems with {metric}, not {len(names)}", "")
    terms |= {"metric": metric, "trivial": trivial, "family": math.comb(len(names), 2)}
    decisions: list[Decision] = []
    for place, name in enumerate(names[:-1]):
        left = table.drop(scored.index[scored["system"].isin(names[:place])])
        decisions.append(decide(left, reference=name, **terms))
        terms["over"] = decisions[0].question.over  # of all systems, also where later ones alone have another default
    return decisions


def _require_units(rows: DataFrame, margin: float | None, *, lower_is_better: bool) -> None:
    """Check the values of one metric against its bounds, and their unit against the margin's.

    Values that are not finite are not checked. Fractions of 1 with a margin in percentage points would all be
    equivalent: values between 0 and 1 need a margin below 0.1, or below the largest value if lower is better. That
    holds for metrics in percent and for unknown ones.

    Raises:
        PhmrunError: (exit 3) A value is out of bounds. (exit 2) The margin is in another unit.
    """
    name = str(rows["metric"].iloc[0])
    metric = known_metric(name)
    low, high = metric.bounds if metric else (-math.inf, math.inf)
    finite = rows[np.isfinite(rows["value"])]
    outside = finite[~finite["value"].between(low - ROUNDING, high + ROUNDING)]
    for value, where in zip(outside["value"], outside["where"], strict=True):
        between = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        hint = "A metric of another kind needs another name."
        raise bad(f"{name} is {value:g}, and its values are {between}", where, hint=hint)
    largest = max(finite["value"], default=0.0)
    fractions = 0 < largest <= 1 and (finite["value"] >= 0).all()
    limit = largest if lower_is_better and metric is None else LEAST_POINTS
    if fractions and margin and margin >= limit and (metric is None or metric.bounds == PERCENT):
        what = f"all values of {name} are between 0 and 1, and the margin {margin:g} is for percentages"
        hint = f"Multiply the values by 100, or state the margin in their unit: --margin {margin / 100:g}."
        raise PhmrunError(what, where="--margin", hint=hint)


def _system(rows: DataFrame) -> System:
    """Return the scores of one system by seed. With items, a score is the mean over them.

    Seeds are sorted by length, then as text.

    Raises:
        PhmrunError: (exit 3) A score occurs twice, or only some scores of a seed have an item.
    """
    name, by_seed = str(rows["system"].iloc[0]), dict[str, dict[str, float]]()
    for row in rows[rows.duplicated(["seed", "item"])].to_dict("records"):
        same = rows[(rows["seed"] == row["seed"]) & (rows["item"] == row["item"])]
        what = f"{name} has two scores of seed {row['seed'] or '(none)'}"
        what += f", item {row['item']}" if row["item"] else ""
        raise bad(what, row["where"], hint=f"The other is at {same['where'].iloc[0]}.")
    for seed, part in rows.groupby("seed"):
        by_seed[str(seed)] = dict(zip(part["item"], part["value"], strict=True))
        if len(part) > 1 and "" in by_seed[str(seed)]:
            raise bad(f"some scores of {name}, seed {seed}, have an item and some not", part["where"].iloc[1])
    ordered = [by_seed[seed] for seed in sorted(by_seed, key=lambda seed: (len(seed), seed))]
    has_items = all("" not in by_item for by_item in ordered)
    return System(name, tuple(fmean(by_item.values()) for by_item in ordered), tuple(ordered) if has_items else ())


def _shared_items(system: System, reference: System) -> ItemVariance | None:
    """Return the variance over the items of both systems; ``None`` if either has no items.

    Raises:
        PhmrunError: (exit 3) The runs have different items.
    """
    if not system.items or not reference.items:
        return None
    keys = list(reference.items[0])
    for run in (*system.items, *reference.items):
        if run.keys() != set(keys):
            odd = sorted(set(keys) ^ run.keys())[0]
            what = f"{system.name} and {reference.name} were not scored on the same items, such as {odd}"
            raise PhmrunError(what, code=ExitCode.DATA)
    sides = [[np.array([run[key] for key in keys]) for run in side.items] for side in (system, reference)]
    return variance_of_means(sides[0], sides[1])


def meets(judgement: Judgement, requirement: str) -> bool:
    """True if a verdict shows that a system is "better", or "not-worse".

    A better or equivalent system is not worse, too.
    """
    better = judgement.verdict is Verdict.DIFFERENT and bool(judgement.better)
    return better or (requirement != "better" and judgement.verdict in (Verdict.EQUIVALENT, Verdict.NOT_WORSE))
