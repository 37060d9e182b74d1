"""Every embedding × every network of language modelling: it is killed, resumes bit-exactly, and all of it learns."""

import pytest
import torch
from structure_cases import EMBEDDING_CASES
from tiny_experiments import configured, run_experiment, run_of

from phmrun.ledger import State
from phmrun.tasks.lm.module import MEMORY, LanguageModelModule

NETWORKS = {
    "lstm": {},
    "awd-lstm": {},
    "transformer-xl": {"heads": 2, "head_width": 16, "inner": 48, "memory": 12},
}


RESUMED = [
    pytest.param(network, *case.values, id=f"{network}-{case.id}")
    for network, case in zip(NETWORKS, EMBEDDING_CASES, strict=False)
]
"""Every network once, each with another embedding."""


@pytest.mark.parametrize(("network", "name", "options"), RESUMED)
def test_killed_and_resumed_is_bit_identical(network, name, options, tmp_path, monkeypatch):
    overrides = {
        "model": {"network": network, **NETWORKS[network]},
        "embedding": {"structure": name, **options},
        "training": {"average": 0, "keep_last": 1, "average_after": 1},
    }
    config = configured("lm", tmp_path / "corpus", overrides)
    straight = run_of(run_experiment(config, tmp_path / "straight"))
    step, calls = LanguageModelModule.training_step, []

    def dies(module, batch, index):
        calls.append(index)
        if len(calls) == 13:
            raise RuntimeError("killed")
        return step(module, batch, index)

    with monkeypatch.context() as patch:
        patch.setattr(LanguageModelModule, "training_step", dies)
        with pytest.raises(RuntimeError, match="killed"):
            run_experiment(config, tmp_path / "resumed")
    resumed = run_of(run_experiment(config, tmp_path / "resumed"))
    assert straight.status.state is resumed.status.state is State.DONE
    assert straight.metrics()["test/perplexity"] == resumed.metrics()["test/perplexity"]
    item, other = (torch.load(run.checkpoints / "last.ckpt") for run in (straight, resumed))
    for key in item["state_dict"]:
        assert torch.equal(item["state_dict"][key], other["state_dict"][key]), key
    assert len(item[MEMORY]) > 0
    for first, second in zip(item[MEMORY], other[MEMORY], strict=True):
        assert torch.equal(first, second)
