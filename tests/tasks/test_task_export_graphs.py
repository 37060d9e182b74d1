"""Every task's network can be handed over as one function of tensors, which gives what the network gives."""

import os
from pathlib import Path

import pytest
import torch
from tiny_experiments import SETTINGS, configured, everywhere

from phmrun.exchange.formats import largest_difference
from phmrun.registry import TASKS


@torch.no_grad()
@pytest.mark.parametrize("task", sorted(SETTINGS))
def test_every_task_has_an_export_graph(task, tmp_path):
    config = configured(task, tmp_path / "corpus", everywhere("phm", n=2))
    description = TASKS.get(task)
    data = description.load("data")(config, Path(os.environ["PHMRUN_CACHE"]))
    data.prepare()
    torch.manual_seed(0)
    module = description.load("module")(config, *data.vocabulary.sizes).eval()
    program = module.export_graph()
    assert largest_difference(program, program.function) < 1e-5
    assert len(program.examples) > 1
