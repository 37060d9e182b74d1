"""False alarms, coverage and power of verdicts, by simulation: ``python -m benchmarks.verdicts --trials 10000``.

Scores are in units of the deviation between seeds. A false alarm is a table with any row called different whose true
difference is 0; coverage is the share of tables whose intervals all hold the truth; power is the share of rows called
different. Every share comes with its 95 % binomial interval (Wilson). With ``--methods``, other methods are measured
beside the one in use. NumPy alone; all trials of a setting are computed at once.

Settings: normal scores; rows three times as variable as dense; skewed (lognormal); 10 % of all seeds collapse by 20
deviations; five rates, of which each seed keeps the best by validation. In the last, "search outside" is the old habit:
the rate is chosen on the first seed, which is counted, too.
"""

import argparse
import json
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phmrun.statistics.verdict import FALSE_FLAGS
from phmrun.statistics.welch import CAUTION, NOT_FLAGGED, POWER, row_level, t_quantile

Array = NDArray[np.float64]
KINDS = ("normal", "spread", "skewed", "collapse", "tuned")
ROWS = (1, 3, 8)
PAIRED = (3, 4, 8)  # rows that are compared with one another
FIXED = 6
ITEMS = 200
DEPTH = 20.0  # of a collapse, in deviations
CURVE = np.array([-4.0, 0.0, -1.5, -5.0, -8.0]) / 1.4  # true scores of five rates
CHUNK = 250  # trials with items at a time


def draw(stream: np.random.Generator, kind: str, shape: tuple[int, int, int], effect: float = 0.0) -> Array:
    """Scores ``[trials, 1 + rows, seeds]``, the reference first; the rows' true means are ``effect``."""
    noise = stream.normal(size=shape)
    if kind == "spread":
        noise[:, 1:] *= 3
    if kind == "skewed":
        noise = (np.exp(0.8 * noise) - math.exp(0.32)) / math.sqrt((math.exp(0.64) - 1) * math.exp(0.64))
    if kind == "collapse":
        noise -= DEPTH * (stream.random(shape) < 0.1)
    if kind == "tuned":
        test = CURVE + stream.normal(size=(*shape, len(CURVE)))
        validation = test + 0.5 * stream.normal(size=test.shape)
        best = validation.argmax(axis=-1)
        noise = np.take_along_axis(test, best[..., None], axis=-1)[..., 0]
    noise[:, 1:] += effect
    return noise


def search_outside(stream: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    """Scores whose rate was chosen on the first seed, which is counted."""
    test = CURVE + stream.normal(size=(*shape, len(CURVE)))
    best = (test[:, :, 0] + 0.5 * stream.normal(size=test[:, :, 0].shape)).argmax(axis=-1)
    return np.take_along_axis(test, best[:, :, None, None], axis=-1)[..., 0]


def noise_of(stream: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Noise of seeds ``[trials, 1 + rows, seeds, rates]``: normal, heavy tails (t, 3 degrees), or outliers in a row."""
    if kind == "heavy tails":
        return stream.standard_t(3, size=shape) / math.sqrt(3)
    noise = stream.normal(size=shape)
    if kind == "outliers in one row":
        noise[:, 1] -= DEPTH * (stream.random(noise[:, 1].shape[:-1]) < 0.1)[..., None]
    return noise


def searched(stream: np.random.Generator, kind: str, shape: tuple[int, int, int], *, replicates: bool) -> Array:
    """Scores of the counted seeds of a tuned sweep; the pilot, the first of ``seeds + 1``, is left out.

    The pilot's validation chooses among five rates. All seeds take its rate, or with ``replicates`` each chooses
    between that rate and its two neighbors by its own validation.
    """
    trials, systems, seeds = shape
    test = CURVE + noise_of(stream, kind, (trials, systems, seeds + 1, len(CURVE)))
    validation = test + 0.5 * stream.normal(size=test.shape)
    best = validation[:, :, :1].argmax(axis=-1)
    chosen = np.broadcast_to(best, test.shape[:3])[:, :, 1:]
    if replicates:
        near = np.abs(np.arange(len(CURVE)) - best[..., None]) <= 1
        chosen = np.where(near, validation[:, :, 1:], -np.inf).argmax(axis=-1)
    return np.take_along_axis(test[:, :, 1:], chosen[..., None], axis=-1)[..., 0]


def designs(trials: int, seed: int = 6) -> Iterator[dict[str, Any]]:
    """False alarms and coverage of both designs of ``tune``, equal structures."""
    for replicates in (True, False):
        for kind in ("normal", "heavy tails", "outliers in one row"):
            for rows in (1, 4, 8):
                for seeds in (3, 5, 10):
                    stream = np.random.default_rng([seed, rows, seeds])
                    scores = searched(stream, kind, (trials, rows + 1, seeds), replicates=replicates)
                    facts = {"replicates": replicates, "kind": kind, "rows": rows, "counted": seeds}
                    yield facts | _facts(judged(scores), trials)


def quantiles(level: float, freedom: Array) -> Array:
    """Two-sided critical values of Student's t, interpolated in 1 / freedom."""
    inverse, values = _quantile_table(level)
    return np.interp(1 / freedom, inverse, values)


@lru_cache(maxsize=64)
def _quantile_table(level: float) -> tuple[Array, Array]:
    inverse = np.linspace(1e-4, 1, 400)
    return inverse, np.array([t_quantile(1 - level / 2, 1 / share) for share in inverse.tolist()])


def intervals(
    scores: Array, level: float, caution: float = CAUTION, items: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """Differences of the rows from the reference and half widths of their intervals, ``[trials, rows]``."""
    means = np.nanmean(scores, axis=2)
    error, freedom = errors(scores, caution, items)
    return means[:, 1:] - means[:, :1], quantiles(level, freedom) * error


def errors(scores: Array, caution: float = CAUTION, items: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
    """Standard errors of the differences and their degrees of freedom, ``[trials, rows]``."""
    seeds = np.isfinite(scores).sum(axis=2)
    parts = np.nanvar(scores, axis=2, ddof=1) / seeds
    of_seeds = parts[:, 1:] + parts[:, :1]
    of_items = np.zeros_like(of_seeds)
    if items is not None:
        of_items = items[0] - np.minimum(np.minimum(items[1], of_seeds), items[0])
    total = of_seeds + of_items
    squares, fewer = parts**2 / (seeds - 1), np.minimum(seeds[:, 1:], seeds[:, :1]) - 1
    inverse = squares[:, 1:] + squares[:, :1] + of_items**2 / (ITEMS - 1)
    return np.sqrt(total), 1 / ((1 - caution) * inverse / total**2 + caution / fewer)


def reported(scores: Array, level: float) -> Array:
    """Differences that tables call detectable, ``[trials, rows]``."""
    error, freedom = errors(scores)
    critical, z = quantiles(level, freedom), t_quantile(POWER / NOT_FLAGGED, math.inf)
    size = critical * (1 - 1 / (4 * freedom)) + z * np.sqrt(1 + critical**2 / (2 * freedom))
    return np.asarray(size * (1 + 1 / (4 * freedom)) * error)


def collapsed_seeds(scores: Array) -> NDArray[np.int_]:
    """Numbers of collapsed seeds, ``[trials, systems]``, by the rule of ``phmrun.statistics.verdict``."""
    ordered, count = np.sort(scores, axis=2), scores.shape[2]
    flagged = np.zeros(scores.shape[:2], dtype=int)
    for worst in range(1, count // 2 + 1):
        others = ordered[:, :, worst:]
        left = others.shape[2]
        if left < 3:
            break
        quantile = t_quantile(1 - FALSE_FLAGS / math.comb(count, worst), left - 1)
        reach = quantile * others.std(axis=2, ddof=1) * math.sqrt(1 + 1 / left)
        flagged[others.mean(axis=2) - ordered[:, :, worst - 1] > reach] = worst
    return flagged


def judged(
    scores: Array, truth: Array | float = 0.0, items: tuple[Array, Array] | None = None
) -> dict[str, NDArray[np.bool_]]:
    """Rows called different, rows whose interval misses the truth, and rows without an interval.

    Collapsed seeds of one side are set aside, and the interval is open towards this side.
    """
    level = row_level(scores.shape[1] - 1)
    gap, half = intervals(scores, level, items=items)
    lost = collapsed_seeds(scores)
    row, dense = lost[:, 1:] > 0, lost[:, :1] > 0
    with np.errstate(invalid="ignore"):  # seeds of one score: NaN, and no verdict
        without, reach = intervals(_without(scores, lost), level)
    gap, half = np.where(row | dense, without, gap), np.where(row | dense, reach, half)
    low, high = np.where(row, -np.inf, gap - half), np.where(dense, np.inf, gap + half)
    silent, missed = row & dense, (low > truth) | (high < truth)
    return {"different": ((low > 0) | (high < 0)) & ~silent, "missed": missed & ~silent, "silent": silent}


def _without(scores: Array, lost: NDArray[np.int_]) -> Array:
    """Scores in which the worst ``lost`` of each system are NaN."""
    ordered = np.sort(scores, axis=2)
    return np.where(np.arange(scores.shape[2]) < lost[..., None], np.nan, ordered)


def with_items(stream: np.random.Generator, kind: str, trials: int, rows: int) -> tuple[Array, tuple[Array, Array]]:
    """Accuracies over shared items, and the variance of the items; no system differs in the population."""
    scores, parts = [], []
    for _ in range(0, trials, CHUNK):
        shape = (CHUNK, rows + 1, FIXED)
        effect = 0.02 * draw(stream, kind, shape)
        easy = stream.uniform(0.55, 0.85, (CHUNK, 1, ITEMS)) + stream.uniform(-0.1, 0.1, (CHUNK, rows + 1, ITEMS))
        chance = easy[:, :, None, :] + effect[..., None]
        right = (stream.random(chance.shape, dtype=np.float32) < chance).astype(np.float32)
        scores.append(right.mean(axis=3).astype(np.float64))
        parts.append(_item_variance(right))
    return np.concatenate(scores), (
        np.concatenate([of for of, _ in parts]),
        np.concatenate([both for _, both in parts]),
    )


def _item_variance(right: NDArray[np.float32]) -> tuple[Array, Array]:
    """Variance of each row's difference over items, and the part that seed and item have together."""
    seeds, items = right.shape[2], right.shape[3]
    means = right.mean(axis=2, dtype=np.float64)
    of_items = (means[:, 1:] - means[:, :1]).var(axis=2, ddof=1) / items
    share = right.mean(axis=3, dtype=np.float64)
    single = (share * (1 - share) * items / (items - 1)).mean(axis=2)
    surplus = np.maximum(single - means.var(axis=2, ddof=1), 0) / items / (seeds - 1)
    return of_items, surplus[:, 1:] + surplus[:, :1]


def wilson(share: float, trials: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z = 1.959964
    middle, spread = share + z * z / (2 * trials), z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    return (middle - spread) / (1 + z * z / trials), (middle + spread) / (1 + z * z / trials)


def _facts(outcome: dict[str, NDArray[np.bool_]], trials: int) -> dict[str, Any]:
    alarms = float(outcome["different"].any(axis=1).mean())
    coverage = float(1 - outcome["missed"].any(axis=1).mean())
    facts = {"alarms": alarms, "alarms_95": wilson(alarms, trials)}
    facts |= {"coverage": coverage, "coverage_95": wilson(coverage, trials)}
    shown = np.logical_not(outcome["silent"]).sum()
    facts["coverage_of_shown"] = float(1 - outcome["missed"].sum() / shown)  # row by row, those with an interval
    return facts | {"no_interval": float(outcome["silent"].mean())}


def grid(trials: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """False alarms and coverage of the method in use, setting by setting."""
    for rows in ROWS:
        for kind in KINDS:
            stream = np.random.default_rng([seed, rows, KINDS.index(kind), 1])
            scores = draw(stream, kind, (trials, rows + 1, FIXED))
            yield {"rows": rows, "kind": kind, "over": "seeds"} | _facts(judged(scores), trials)
            scores, items = with_items(stream, kind, trials, rows)
            yield {"rows": rows, "kind": kind, "over": "seeds and items"} | _facts(
                judged(scores, 0.0, items), len(scores)
            )


def power(trials: int, seed: int = 2) -> Iterator[dict[str, Any]]:
    """Power at effects of 1, 2 and 3 deviations, normal scores."""
    for rows in ROWS:
        for seeds in (FIXED, 10):
            stream = np.random.default_rng([seed, rows, 1, seeds])
            facts: dict[str, Any] = {"rows": rows, "seeds": seeds}
            for effect in (1, 2, 3):
                scores = draw(stream, "normal", (trials, rows + 1, seeds), effect)
                facts[f"power_{effect}"] = float(judged(scores, effect)["different"].mean())
            yield facts


def detectable(trials: int, seed: int = 3) -> Iterator[dict[str, Any]]:
    """Power at the median of the differences that tables call detectable with a power of 80 %."""
    for rows in ROWS:
        for kind in ("normal", "spread"):
            for seeds in (2, 3, 4, 5, FIXED, 10):
                stream = np.random.default_rng([seed, rows, seeds])
                shape = (trials, rows + 1, seeds)
                effect = float(np.median(reported(draw(stream, kind, shape), row_level(rows))))
                share = float(judged(draw(stream, kind, shape, effect), effect)["different"].mean())
                yield {"rows": rows, "kind": kind, "seeds": seeds, "detectable": effect, "power": share}


def pairs(trials: int, seed: int = 5) -> Iterator[dict[str, Any]]:
    """False alarms over all pairs of rows, six seeds; no row differs from another."""
    for rows in PAIRED:
        for kind in KINDS:
            stream, level = np.random.default_rng([seed, rows, len(kind)]), row_level(math.comb(rows, 2))
            scores = draw(stream, kind, (trials, rows, FIXED))
            lost, alarms = collapsed_seeds(scores) > 0, np.zeros(trials, dtype=bool)
            for row in range(rows - 1):
                gap, half = intervals(scores[:, row:], level)
                alarms |= ((np.abs(gap) > half) & ~(lost[:, row + 1 :] | lost[:, row : row + 1])).any(axis=1)
            share = float(alarms.mean())
            facts = {"rows": rows, "pairs": math.comb(rows, 2), "kind": kind}
            yield facts | {"alarms": share, "alarms_95": wilson(share, trials)}


def methods(trials: int, seed: int = 4) -> Iterator[dict[str, Any]]:
    """False alarms of other methods, six seeds."""
    for rows in ROWS:
        for kind in (*KINDS, "search outside"):
            stream = np.random.default_rng([seed, rows, len(kind)])
            shape = (trials, rows + 1, FIXED)
            scores = search_outside(stream, shape) if kind == "search outside" else draw(stream, kind, shape)
            level = row_level(rows)
            facts: dict[str, Any] = {"rows": rows, "kind": kind}
            for name, caution in (("Welch", 0.0), ("in use, without detection", CAUTION), ("smaller group", 1.0)):
                gap, half = intervals(scores, level, caution)
                facts[name] = float((np.abs(gap) > half).any(axis=1).mean())
            facts["pooled variance"] = float(_pooled(scores, level).any(axis=1).mean())
            facts["max-t permutation"] = float(_permuted(stream, scores[: trials // 5]).mean())
            facts["in use"] = float(judged(scores)["different"].any(axis=1).mean())
            yield facts


def _pooled(scores: Array, level: float) -> NDArray[np.bool_]:
    """Rows called different by one variance of all groups."""
    groups, seeds = scores.shape[1:]
    error = np.sqrt(scores.var(axis=2, ddof=1).mean(axis=1, keepdims=True) * 2 / seeds)
    gap = scores[:, 1:].mean(axis=2) - scores[:, :1].mean(axis=2)
    return np.abs(gap) > t_quantile(1 - level / 2, groups * (seeds - 1)) * error


def _permuted(stream: np.random.Generator, scores: Array, draws: int = 400) -> NDArray[np.bool_]:
    """Tables with any row called different by a studentised max-t permutation over all groups."""

    def largest(values: Array) -> Array:
        seeds = values.shape[2]
        means, parts = values.mean(axis=2), values.var(axis=2, ddof=1) / seeds
        gap = np.abs(means[:, 1:] - means[:, :1])
        return np.asarray((gap / np.sqrt(parts[:, 1:] + parts[:, :1])).max(axis=1))

    measured, flat = largest(scores), scores.reshape(len(scores), -1)
    extreme = np.ones(len(scores))
    for _ in range(draws):
        extreme += largest(stream.permuted(flat, axis=1).reshape(scores.shape)) >= measured
    return extreme / (draws + 1) <= 0.05


def main() -> None:
    """Print one JSON object for each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000, help="simulated tables for each setting")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the simulation")
    parser.add_argument("--methods", action="store_true", help="measure other methods, too")
    options = parser.parse_args()
    parts = [
        grid(options.trials, options.seed),
        power(options.trials),
        detectable(options.trials),
        pairs(options.trials),
        designs(options.trials),
    ]
    if options.methods:
        parts.append(methods(options.trials))
    for part in parts:
        for facts in part:
            print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
