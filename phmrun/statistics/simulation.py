"""What the tests promise, by simulation: ``python -m phmrun.statistics.simulation --trials 1000``.

Scores of seeds are drawn from normal distributions whose deviation is 1, so an effect is in deviations between seeds.
False alarms are families (tables) with any row called different where none differs; power is the share of rows called
different; coverage the share of 95 % intervals that hold the truth; saved are seeds against a fixed number of them.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phmrun.statistics.decision import Verdict, decide
from phmrun.statistics.hierarchical import compare_items, compare_scores
from phmrun.statistics.sequential import Design, decisions

Array = NDArray[np.float64]
FIXED = 10
ITEMS = 200


def sequential(
    stream: np.random.Generator, trials: int, rows: int, effect: float, margin: float | None
) -> dict[str, Any]:
    """The group-sequential test on rows that all differ by an effect."""
    design = Design(max_seeds=FIXED, margin=margin)
    alarms = wrong = 0
    called, seeds = [], []
    for _ in range(trials):
        base = stream.normal(size=FIXED)
        found = decisions(design, [stream.normal(effect, 1, FIXED).tolist() for _ in range(rows)], base.tolist())
        different = [each.verdict is Verdict.DIFFERENT for each in found]
        alarms += any(different)
        wrong += any(each.verdict is Verdict.NOT_WORSE for each in found)
        called += different
        seeds += [each.seeds for each in found]
    return {
        "test": "sequential",
        "rows": rows,
        "effect": effect,
        "margin": margin,
        "any_different": alarms / trials,
        "any_not_worse": wrong / trials,
        "power": float(np.mean(called)),
        "mean_seeds": float(np.mean(seeds)),
        "saved": 1 - float(np.mean(seeds)) / FIXED,
    }


def fixed(stream: np.random.Generator, trials: int, rows: int, effect: float, seeds: int) -> dict[str, Any]:
    """The table's decision by seeds alone: Welch's test with Holm's correction."""
    alarms, called, held = 0, [], []
    for _ in range(trials):
        base = stream.normal(size=seeds)
        comparisons = [
            compare_scores(stream.normal(effect, 1, seeds).tolist(), base.tolist(), paired=False) for _ in range(rows)
        ]
        made = [each for each in comparisons if each is not None]
        different = [each.verdict is Verdict.DIFFERENT for each in decide(made, lower_is_better=False)]
        alarms += any(different)
        called += different
        held += [low <= effect <= high for low, high in (each.interval() for each in made)]
    return {
        "test": "fixed",
        "rows": rows,
        "effect": effect,
        "seeds": seeds,
        "any_different": alarms / trials,
        "power": float(np.mean(called)),
        "coverage": float(np.mean(held)),
    }


def items_and_seeds(
    stream: np.random.Generator, trials: int, seeds: int, spread: float, paired: bool
) -> dict[str, Any]:
    """The hierarchical bootstrap on labels right and wrong, of systems that do not differ."""
    held, alarms = 0, 0
    for _ in range(trials):
        chance = stream.uniform(0.5, 1.0, size=ITEMS)
        sides = [_labels(stream, seeds, chance, spread) for _ in range(2)]
        found = compare_items(sides[0], sides[1], _share, paired=paired, draws=300)
        low, high = found.interval()
        held += low <= 0 <= high
        alarms += found.p <= 0.05
    return {
        "test": "items and seeds",
        "seeds": seeds,
        "spread": spread,
        "paired": paired,
        "coverage": held / trials,
        "false_alarms": alarms / trials,
    }


def sequential_with_items(
    stream: np.random.Generator, trials: int, rows: int, spread: float, max_seeds: int
) -> dict[str, Any]:
    """The group-sequential test on accuracies over shared items, of systems that do not differ."""
    design, alarms, seeds = Design(max_seeds=max_seeds), 0, []
    for _ in range(trials):
        chance = stream.uniform(0.5, 1.0, size=ITEMS)
        sides = [np.stack(_labels(stream, max_seeds, chance, spread)).sum(axis=1) for _ in range(rows + 1)]
        base, *others = [_share(side).tolist() for side in sides]
        found = decisions(design, others, base)
        alarms += any(each.verdict is Verdict.DIFFERENT for each in found)
        seeds += [each.seeds for each in found]
    return {
        "test": "sequential over items",
        "rows": rows,
        "max_seeds": max_seeds,
        "spread": spread,
        "any_different": alarms / trials,
        "mean_seeds": float(np.mean(seeds)),
    }


def _labels(stream: np.random.Generator, seeds: int, chance: Array, spread: float) -> list[Array]:
    made = []
    for _ in range(seeds):
        right = stream.random(len(chance)) < np.clip(chance + stream.normal(0, spread), 0, 1)
        made.append(np.stack([right, np.ones(len(chance))], axis=1).astype(np.float64))
    return made


def _share(sums: Array) -> Array:
    share: Array = 100 * sums[:, 0] / sums[:, 1]
    return share


def simulate(trials: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """All settings, one after the other."""
    stream = np.random.default_rng(seed)
    for rows in (1, 2, 3, 4, 5, 6):
        yield sequential(stream, trials, rows, 0.0, None)
        yield fixed(stream, trials, rows, 0.0, 5)
    for effect in (1.0, 2.0, 3.0, 5.0):
        yield sequential(stream, trials, 3, effect, None)
        yield fixed(stream, trials, 3, effect, 5)
    for effect in (-2.0, 0.0):
        yield sequential(stream, trials, 3, effect, 2.0)
    for seeds in (2, 3, 5, 10):
        for paired in (True, False):
            yield items_and_seeds(stream, max(trials // 2, 50), seeds, 0.02, paired)
    for seeds in (5, 10):
        yield sequential_with_items(stream, max(trials // 2, 50), 3, 0.02, seeds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one JSON object per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="simulated tables per setting")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation")
    given = parser.parse_args(arguments)
    for found in simulate(given.trials, given.seed):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
