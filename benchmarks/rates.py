"""Best learning rate and loss of structures with rates one and structure, on a small language model.

A Transformer-XL of one block without memory reads the Penn Treebank: 1,000 words, 16 × 16 words a step, no dropout.
The rate rises over a tenth of the steps and falls linearly to 0. The loss is the final validation loss in nats. Each
row walks over a grid of rates in factors of 2 until both neighbors of its best rate are worse. The first seed begins at
2⁻⁸, the others at the first one's best. Rows:

- one: one rate for all parameters.
- structure: rates by the shapes of factors, phmrun's initialization.
- spectral: the same with the initialization of compute-better-spent (Qiu et al. 2024). A factor [k, d] has the standard
  deviation √(1/d)·min(1, √(k/d)).
- measured, balanced: on record only. Rates by the movement of the outputs on the first batches, and the same with
  factors rescaled at the start.

Every finished training is a line of the output file. The same command continues where it stopped::

    python -m benchmarks.rates --out rates.jsonl --width 128
    python -m benchmarks.rates --out rates.jsonl --table
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import nn

from phmrun.bench import machine
from phmrun.config import Experiment, Source, resolve, task_defaults
from phmrun.engine.data import DataModule, build_data
from phmrun.engine.module import TrainingModule, build_module, seed_everything
from phmrun.layers import Structure, options_of
from phmrun.registry import TASKS
from phmrun.statistics.welch import t_quantile

LAYERS = {
    "phm n=4": {"structure": "phm", "n": 4},
    "phm n=8": {"structure": "phm", "n": 8},
    "monarch": {"structure": "monarch"},
    "blast": {"structure": "blast"},
    "low-rank": {"structure": "low-rank"},
}
TRAINED = ("one", "structure", "spectral")
METHODS = (*TRAINED, "measured", "balanced")  # of the records
FIRST = -8  # exponent of the first rate, a power of 2
BOUNDS = (-18, 0)
VALIDATION = 24  # batches


class Row(NamedTuple):
    """Structure with its rates."""

    layer: str
    method: str


def rows(methods: Sequence[str] = METHODS) -> list[Row]:
    """Return dense, then every structure with every method, or with some of :data:`METHODS`."""
    dense = [Row("dense", way) for way in methods if way in ("one", "spectral")]
    return [*dense, *(Row(name, way) for name in LAYERS for way in methods)]


def experiment(row: Row, width: int, seed: int) -> Experiment:
    """Return the configuration of a row."""
    rates = "one" if row.method == "one" else "structure"
    layer = LAYERS.get(row.layer, {"structure": "dense"})
    sizes = {"width": width, "inner": 2 * width, "heads": 4, "head_width": width // 4, "layers": 1, "memory": 0}
    optimizer = {"name": "adam", "lr": 1.0, "betas": [0.9, 0.99], "eps": 1e-8, "rates": rates}
    values = {
        "seed": seed,
        "data": {"name": "ptb", "vocabulary": {"size": 1000}},
        "layer": layer,
        "model": {"network": "transformer-xl", "dropout": 0.0, **sizes},
        "batch": {"size": 16, "length": 16},
        "training": {"optimizer": optimizer},
    }
    sources = [task_defaults("lm"), Source("benchmark", values)]
    return resolve(TASKS.get("lm").load("schema"), sources, options_of).config


def draw_spectral(network: nn.Module) -> None:
    """Draw the factors of all maps with compute-better-spent's deviations, in place."""
    for structure in network.context.modules():  # type: ignore[union-attr, operator]
        if not isinstance(structure, Structure):
            continue
        fans = structure.factors_read() or {"matrix": (structure.out_features, structure.in_features)}
        for name, (k, d) in fans.items():
            nn.init.normal_(structure.get_parameter(name), std=(1 / d) ** 0.5 * min(1.0, (k / d) ** 0.5))


def trained(row: Row, width: int, seed: int, exponent: int, steps: int, data: DataModule) -> float:
    """Train a row at the rate 2^exponent and return its validation loss; infinity if it diverged."""
    config = experiment(row, width, seed)
    seed_everything(seed)
    module = build_module(config, *data.vocabulary.sizes)
    if row.method == "spectral":
        draw_spectral(module.network)
    optimizer = module.make_optimizer(module.network)
    base = [group["lr"] for group in optimizer.param_groups]
    module.train()
    for step, batch in enumerate(islice(data.train_dataloader(), steps), start=1):
        pace = 2.0**exponent * min(1.0, 10 * step / steps, (steps + 1 - step) / (0.9 * steps))
        for group, rate in zip(optimizer.param_groups, base, strict=True):
            group["lr"] = rate * pace
        loss = module.loss(batch)
        if not torch.isfinite(loss.total):
            return math.inf
        optimizer.zero_grad()
        (loss.total / loss.units).backward()
        optimizer.step()
    value = validation_loss(module, data)
    return value if math.isfinite(value) else math.inf


@torch.no_grad()
def validation_loss(module: TrainingModule, data: DataModule) -> float:
    """Return the mean loss of the first validation batches, in nats."""
    module.eval()
    losses = [module.loss(batch) for batch in islice(data.validation_batches(), VALIDATION)]
    return sum(float(loss.nll) for loss in losses) / sum(loss.units for loss in losses)


def walk(first: int, loss_at: Callable[[int], float]) -> int:
    """Return the exponent of the best rate, of which both neighbors are worse.

    Args:
        first: Exponent to begin at.
        loss_at: Trains at an exponent.
    """
    best = first
    losses = {best: loss_at(best)}
    while True:
        for near in (best - 1, best + 1):
            if near not in losses and BOUNDS[0] <= near <= BOUNDS[1]:
                losses[near] = loss_at(near)
        nearby = {place: losses[place] for place in (best, best - 1, best + 1) if place in losses}
        lowest = min(nearby, key=lambda place: (nearby[place], abs(place - best)))
        if lowest == best:
            return best
        best = lowest


def kept(path: Path) -> dict[tuple[Any, ...], float]:
    """Return the losses on record by width, steps, layer, method, seed and exponent."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    records = [json.loads(line) for line in lines]
    keys = ("width", "steps", "layer", "method", "seed", "exponent")
    return {tuple(record[key] for key in keys): record["loss"] or math.inf for record in records if "loss" in record}


def measure(path: Path, width: int, steps: int, seeds: int, methods: Sequence[str]) -> None:
    """Train all rows, seed by seed, and append a line for each training to a file."""
    losses = kept(path)
    if not losses:
        _append(path, machine.facts())
    for seed in range(1, seeds + 1):
        data = build_data(experiment(Row("dense", "one"), width, seed))
        data.prepare()
        for row in rows(methods):
            first = best_rate(losses, (width, steps, *row, 1)) or FIRST

            def loss_at(exponent: int, row: Row = row, seed: int = seed, data: DataModule = data) -> float:
                key = (width, steps, *row, seed, exponent)
                if key not in losses:
                    began = time.perf_counter()
                    losses[key] = trained(row, width, seed, exponent, steps, data)
                    seconds = round(time.perf_counter() - began, 1)
                    value = losses[key] if math.isfinite(losses[key]) else None
                    named = {"width": width, "steps": steps, **row._asdict(), "seed": seed, "exponent": exponent}
                    _append(path, {**named, "loss": value, "seconds": seconds})
                return losses[key]

            walk(first, loss_at)


def _append(path: Path, record: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def best_rate(losses: Mapping[tuple[Any, ...], float], row: tuple[Any, ...]) -> int | None:
    """Return the exponent of a row's best loss; ``None`` without losses. ``row`` ends with the seed."""
    by_exponent = {key[-1]: value for key, value in losses.items() if key[:-1] == row}
    return min(by_exponent, key=lambda place: by_exponent[place]) if by_exponent else None


def table(losses: Mapping[tuple[Any, ...], float]) -> Iterator[str]:
    """Yield a Markdown table for each width: losses at the best rates, and the rates in octaves from dense's."""
    for width, steps in dict.fromkeys(key[:2] for key in losses):
        seeds = sorted({key[4] for key in losses if key[:2] == (width, steps)})
        yield f"\nWidth {width}, {steps} steps:\n"
        yield "| layer | rates | seeds | loss at the best rate | best rates, 2^… | octaves from dense's |"
        yield "|---|---|---|---|---|---|"
        dense = _bests(losses, (width, steps, "dense", "one"), seeds)
        for row in rows():
            bests = _bests(losses, (width, steps, *row), seeds)
            if not bests:
                continue
            values = [loss for _, loss in bests.values()]
            half = ""
            if len(values) > 1:
                spread = math.sqrt(sum((value - fmean(values)) ** 2 for value in values) / (len(values) - 1))
                half = f" ± {t_quantile(0.975, len(values) - 1) * spread / math.sqrt(len(values)):.3f}"
            rates = ", ".join(str(place) for place, _ in bests.values())
            shared = [seed for seed in bests if seed in dense]
            apart = fmean(bests[seed][0] - dense[seed][0] for seed in shared) if shared else math.nan
            yield f"| {row.layer} | {row.method} | {len(values)} | {fmean(values):.3f}{half} | {rates} | {apart:+.1f} |"


def summary(losses: Mapping[tuple[Any, ...], float]) -> Iterator[str]:
    """Yield a Markdown table for each width: means over the structures, of seeds that have all of them.

    Octaves are distances from dense's best rate of the same seed and initialization.
    """
    for width, steps in dict.fromkeys(key[:2] for key in losses):
        seeds = sorted({key[4] for key in losses if key[:2] == (width, steps)})
        yield f"\nWidth {width}, over the five structures:\n"
        yield "| rates | seeds | octaves from dense's best rate | rows at dense's best rate | loss by seed |"
        yield "|---|---|---|---|---|"
        for method in METHODS:
            start = "spectral" if method == "spectral" else "one"
            dense = _bests(losses, (width, steps, "dense", start), seeds)
            by_layer = [_bests(losses, (width, steps, layer, method), seeds) for layer in LAYERS]
            whole = [seed for seed in seeds if seed in dense and all(seed in bests for bests in by_layer)]
            if not whole:
                continue
            gaps = [abs(bests[seed][0] - dense[seed][0]) for bests in by_layer for seed in whole]
            means = ", ".join(f"{fmean(bests[seed][1] for bests in by_layer):.3f}" for seed in whole)
            yield f"| {method} | {len(whole)} | {fmean(gaps):.2f} | {gaps.count(0)} of {len(gaps)} | {means} |"


def _bests(
    losses: Mapping[tuple[Any, ...], float], row: tuple[Any, ...], seeds: list[int]
) -> dict[int, tuple[int, float]]:
    """Return exponent and loss at the best rate by seed; seeds whose walk has not ended are left out."""
    bests = {}
    for seed in seeds:
        place = best_rate(losses, (*row, seed))
        if place is not None and all((*row, seed, near) in losses for near in (place - 1, place + 1)):
            bests[seed] = place, losses[*row, seed, place]
    return bests


def main() -> None:
    """Measure, or print tables of what is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of results, JSON lines")
    parser.add_argument("--width", type=int, default=128, help="width of the network")
    parser.add_argument("--steps", type=int, default=150, help="optimizer steps")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--methods", default=",".join(TRAINED), help="rates to measure")
    parser.add_argument("--table", action="store_true", help="print tables and train nothing")
    options = parser.parse_args()
    if options.table:
        print("\n".join([*table(kept(options.out)), *summary(kept(options.out))]))
        return
    torch.set_num_threads(1)
    measure(options.out, options.width, options.steps, options.seeds, options.methods.split(","))


if __name__ == "__main__":
    main()
