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

import numpy as np
from pandas import DataFrame

from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.metric import PERCENT, find_direction, known_metric
from phmrun.statistics.items import ItemVariance, variance_of_means
from phmrun.statistics.long_form import bad, choose_metric, long_form
from phmrun.statistics.verdict import Judgement, Population, Question, Verdict, beats_floors, judge
from phmrun.statistics.welch import LEVEL

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
        deviation = stdev(finite) if len(finite) > 1 else None
        return {"mean": fmean(finite) if finite else None, "std": deviation, "seeds": len(self.scores)}


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

        Keys: verdict, better, difference, interval (low, high), p, detectable, interval_over_items, more_seeds,
        collapsed, p_collapsed, trained, reason, mean, std, seeds, costs. Missing ones are ``None``. ``more_seeds`` is
        the number of further seeds likely to decide, at least 1.
        """
        judgement, numbers = self.judgements[name], self.systems[name].numbers
        needed, count = judgement.needed, min(numbers["seeds"], len(self.reference.scores))
        shown = judgement.difference
        return {
            "verdict": str(judgement.verdict),
            "better": judgement.better,
            "difference": shown.value if shown else None,
            "interval": [shown.low, shown.high] if shown else None,
            "p": shown.p if shown else None,
            "detectable": shown.detectable if shown else None,
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
    choose_by: str | None = None,
    costs: Sequence[str] = (),
    family: int = 0,
) -> Decision:
    """Judge systems by their scores in long form.

    The trivial system, unless it is the reference, is only a floor and gets no judgement.

    Args:
        rows: A pandas data frame or mappings with ``system``, ``metric``, ``value`` and optionally ``seed``, ``item``,
            ``trial``.
        reference: System that all others are compared with.
        metric: The metric that decides.
        trivial: A trivial system that a trained one must beat, such as the majority class.
        margin: Largest difference that counts as none, in units of the metric; not given or 0: test for differences
            only.
        lower_is_better: Direction of the metric, and of a ``choose_by`` whose name says no other. None: that of the
            registered metric; of others, higher is better unless the name speaks against it.
        over: "seeds", "items" or "both"; by default seeds, or items if the rows have items but no seeds.
        choose_by: Validation metric by which each seed chooses among its trials.
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
        options = ("--lower-is-better", "--higher-is-better")
        what = f"it is not known whether lower or higher values of {name!r} are better"
        hint = f"`phmrun decide FILE --metric {name} {options[0]}`; in Python, lower_is_better=True."
        raise PhmrunError(what, where="--metric", valid=options, hint=hint)
    chosen, trials = _chosen(table, scored, choose_by, lower, lower_is_better)
    _require_units(chosen, margin, lower_is_better=lower)
    systems = {str(key): _system(part) for key, part in chosen.groupby("system", sort=False)}
    for wanted, option in ((reference, "--reference"), (trivial, "--trivial")):
        if wanted is not None and wanted not in systems:
            raise unknown("system", wanted, list(systems), where=option)
    seedless = not chosen["seed"].any()
    items_known = all(system.items for system in systems.values() if system.name != trivial)
    population = Population(over) if over else Population.ITEMS if seedless and items_known else Population.SEEDS
    question = Question(margin or None, lower, population)
    dense, floor = systems.pop(reference), systems.pop(trivial, None) if trivial is not None else None
    if not systems:
        with_metric = f" with {name}" if (table["system"] != reference).any() else ""
        raise bad(f"there is no system beside {reference}{with_metric}", chosen["where"].iloc[0])
    floors = [floor.scores] if floor else []
    variances = {key: shared for key, system in systems.items() if (shared := _shared_items(system, dense))}
    scores = {key: system.scores for key, system in systems.items()}
    judged = judge(scores, dense.scores, question, floors=floors, items=variances, rows=family)
    trained = beats_floors(dense.scores, floors, lower_is_better=lower)
    most = max(trials.get(key, 0) for key in (reference, *systems))
    means = {key: choose_metric(table, key, "--cost").groupby("system")["value"].agg(fmean) for key in costs}
    return Decision(
        name,
        question,
        dense,
        systems,
        floor,
        trained,
        judged,
        _estimand(question, most, choose_by),
        {key: {str(system): float(mean) for system, mean in values.items()} for key, values in means.items()},
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
    table = long_form(rows, metric)
    names = [] if table.empty else list(choose_metric(table, metric)["system"].unique())
    names = [name for name in names if name != trivial]
    if len(names) < 2:
        raise bad(f"all pairs need two systems with {metric}, not {len(names)}", "")
    terms |= {"metric": metric, "trivial": trivial, "family": math.comb(len(names), 2)}
    decisions: list[Decision] = []
    for place, name in enumerate(names[:-1]):
        left = table if not place else table[table["system"].isin([trivial, *names[place:]])]
        decisions.append(decide(left, reference=name, **terms))
        terms["over"] = decisions[0].question.over  # of all systems, also where later ones alone have another default
    return decisions


def _chosen(
    table: DataFrame, scored: DataFrame, choose_by: str | None, lower: bool, stated: bool | None
) -> tuple[DataFrame, dict[str, int]]:
    """Return the scores of each seed's best trial, and the most trials of a seed by system.

    The best trial has the best mean of ``choose_by``, the first of equal ones; trials that are not finite come last. A
    seed with a single trial, such as that of a trivial system, needs no validation.

    Raises:
        PhmrunError: (exit 3) A seed has several trials without ``choose_by``, or one of several has no validation
            score. (exit 2) A metric is unknown.
    """
    seed = ["system", "seed"]
    counts = scored.groupby(seed, sort=False)["trial"].nunique()
    trials = counts.groupby("system").max().to_dict()
    if counts.max() == 1:
        return scored, trials
    several = scored[scored.groupby(seed)["trial"].transform("nunique") > 1]
    if choose_by is None:
        first = several[several.groupby(seed)["trial"].transform("first") != several["trial"]].iloc[0]
        hint = "--choose-by METRIC names the validation metric by which each seed keeps one."
        raise bad(f"the seed {first['seed']} of {first['system']} has several trials", first["where"], hint=hint)
    validated = choose_metric(table, choose_by, "--choose-by")
    names = str(validated["metric"].iloc[0]), str(scored["metric"].iloc[0])
    sign = -1.0 if _choice_direction(*names, lower, stated) else 1.0
    means = sign * validated.groupby([*seed, "trial"])["value"].agg(fmean)
    of_trial = several.drop_duplicates([*seed, "trial"]).set_index([*seed, "trial"], drop=False)
    missing = of_trial[~of_trial.index.isin(means.index)]
    if not missing.empty:
        raise bad(f"the trial {missing['trial'].iloc[0]} has no {choose_by}", missing["where"].iloc[0])
    ranks = means.reindex(of_trial.index).where(np.isfinite, -math.inf).to_numpy()
    best = of_trial.assign(rank=ranks).reset_index(drop=True)
    lost = best.loc[best.groupby(seed)["rank"].idxmax(), [*seed, "trial"]]
    kept = scored.merge(lost.rename(columns={"trial": "best"}), on=seed, how="left")
    return kept[kept["best"].isna() | (kept["best"] == kept["trial"])], trials


def _choice_direction(name: str, metric: str, lower: bool, stated: bool | None) -> bool:
    """Return True if lower values of a validation metric are better; ``lower`` is the direction of ``metric``.

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


def meets(judgement: Judgement, requirement: str) -> bool:
    """True if a verdict shows that a system is "better", or "not-worse".

    A better or equivalent system is not worse, too.
    """
    better = judgement.verdict is Verdict.DIFFERENT and bool(judgement.better)
    return better or (requirement != "better" and judgement.verdict in (Verdict.EQUIVALENT, Verdict.NOT_WORSE))
