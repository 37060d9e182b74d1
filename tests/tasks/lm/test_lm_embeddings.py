"""Every embedding × every network of language modelling: it is killed, resumes bit-exactly, and all of it learns."""

import pytest
from exact_resume import killed, outcome, same
from structure_cases import EMBEDDING_CASES
from tiny_experiments import configured, run_experiment, run_of

from phmrun.tasks.lm.module import MEMORY

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
def test_killed_and_resumed_is_bit_identical(network, name, options, tmp_path):
    overrides = {
        "model": {"network": network, **NETWORKS[network]},
        "embedding": {"structure": name, **options},
        "training": {"average": 0, "keep_last": 1, "average_after": 1},
    }
    config = configured("lm", tmp_path / "corpus", overrides)
    straight = run_of(run_experiment(config, tmp_path / "straight"))
    killed(config, tmp_path / "resumed", ("micro-batch", 13))
    resumed = outcome(run_of(run_experiment(config, tmp_path / "resumed")))
    assert len(resumed["checkpoints"]["last.ckpt"][MEMORY]) > 0
    same(outcome(straight), resumed)
