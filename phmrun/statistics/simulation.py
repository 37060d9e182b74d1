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
    made = []
    for _ in range(trials):
        base = stream.normal(size=FIXED)
        made.append(decisions(design, [stream.normal(effect, 1, FIXED).tolist() for _ in range(rows)], base.tolist()))
    seeds = float(np.mean([each.seeds for found in made for each in found]))
    said = {"test": "sequential", "rows": rows, "effect": effect, "margin": margin}
    said |= {"any_different": _any(made, Verdict.DIFFERENT), "any_not_worse": _any(made, Verdict.NOT_WORSE)}
    return said | {"power": _power(made), "mean_seeds": seeds, "saved": 1 - seeds / FIXED}


def fixed(stream: np.random.Generator, trials: int, rows: int, effect: float, seeds: int) -> dict[str, Any]:
    """The table's decision by seeds alone: Welch's test with Holm's correction."""
    made, held = [], []
    for _ in range(trials):
        base = stream.normal(size=seeds).tolist()
        sides = [stream.normal(effect, 1, seeds).tolist() for _ in range(rows)]
        compared = [each for side in sides if (each := compare_scores(side, base, paired=False))]
        made.append(decide(compared, lower_is_better=False))
        held += [low <= effect <= high for low, high in (each.interval() for each in compared)]
    said = {"test": "fixed", "rows": rows, "effect": effect, "seeds": seeds}
    coverage = float(np.mean(held))
    return said | {"any_different": _any(made, Verdict.DIFFERENT), "power": _power(made), "coverage": coverage}


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
    said = {"test": "items and seeds", "seeds": seeds, "spread": spread, "paired": paired}
    return said | {"coverage": held / trials, "false_alarms": alarms / trials}


def sequential_with_items(
    stream: np.random.Generator, trials: int, rows: int, spread: float, max_seeds: int
) -> dict[str, Any]:
    """The group-sequential test on accuracies over shared items, of systems that do not differ."""
    made = []
    for _ in range(trials):
        chance = stream.uniform(0.5, 1.0, size=ITEMS)
        sides = [np.stack(_labels(stream, max_seeds, chance, spread)).sum(axis=1) for _ in range(rows + 1)]
        base, *others = [_share(side).tolist() for side in sides]
        made.append(decisions(Design(max_seeds=max_seeds), others, base))
    said = {"test": "sequential over items", "rows": rows, "max_seeds": max_seeds, "spread": spread}
    seeds = float(np.mean([each.seeds for found in made for each in found]))
    return said | {"any_different": _any(made, Verdict.DIFFERENT), "mean_seeds": seeds}


def _any(made: Sequence[Sequence[Any]], verdict: Verdict) -> float:
    """The share of families with any row of a verdict."""
    return sum(any(each.verdict is verdict for each in found) for found in made) / len(made)


def _power(made: Sequence[Sequence[Any]]) -> float:
    return float(np.mean([each.verdict is Verdict.DIFFERENT for found in made for each in found]))


def _labels(stream: np.random.Generator, seeds: int, chance: Array, spread: float) -> list[Array]:
    made = []
    for _ in range(seeds):
        right = stream.random(len(chance)) < np.clip(chance + stream.normal(0, spread), 0, 1)
        made.append(np.stack([right, np.ones(len(chance))], axis=1).astype(np.float64))
    return made


def _share(sums: Array) -> Array:
    return 100 * sums[:, 0] / sums[:, 1]


def simulate(trials: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """All settings, one after the other."""
    stream = np.random.default_rng(seed)
    for rows, effect in [*((rows, 0.0) for rows in range(1, 7)), *((3, effect) for effect in (1.0, 2.0, 3.0, 5.0))]:
        yield sequential(stream, trials, rows, effect, None)
        yield fixed(stream, trials, rows, effect, 5)
    for effect in (-2.0, 0.0):
        yield sequential(stream, trials, 3, effect, 2.0)
    for seeds in (2, 3, 5, 10):
        for paired in (True, False):
            yield items_and_seeds(stream, max(trials // 2, 50), seeds, 0.02, paired)
    for seeds in (5, 10):
        yield sequential_with_items(stream, max(trials // 2, 50), 3, 0.02, seeds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="simulated tables per setting")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation")
    given = parser.parse_args()
    for found in simulate(given.trials, given.seed):
        print(json.dumps(found), flush=True)
