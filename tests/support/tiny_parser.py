"""A small parser with its data, and its training."""

from pathlib import Path
from typing import Any

import torch
from tiny_experiments import configured

from phmrun.tasks.parse.data import TreebankData, build_data
from phmrun.tasks.parse.module import ParserModule, build_module


def prepared(folder: Path, *overrides: Any) -> tuple[TreebankData, ParserModule]:
    """Data of the made-up treebank, and an untrained parser."""
    config = configured("parse", folder / "trees", *overrides)
    data = build_data(config, folder)
    torch.manual_seed(0)
    return data, build_module(config, *data.vocabulary.sizes)


def learn(data: TreebankData, module: ParserModule, *, steps: int, rate: float) -> None:
    """Train a parser by Adam."""
    optimizer = torch.optim.Adam(module.parameters(), rate)
    batches = iter(data.train_dataloader())
    for _ in range(steps):
        batch = next(batches)
        optimizer.zero_grad()
        (module.train().loss(batch).total / batch.units).backward()
        optimizer.step()
