"""Structures of square matrices only: in translation where every map of the blocks is square, refused elsewhere."""

import pytest
from structure_cases import SQUARE
from tiny_experiments import configured, run_experiment, run_of

from phmrun.errors import PhmrunError
from phmrun.ledger import State


@pytest.mark.parametrize("name", SQUARE)
def test_they_train_where_all_maps_are_square(name, tmp_path):
    model = {"width": 32, "feedforward": 32, "attention_maps": "separate"}
    config = configured("nmt", tmp_path / "corpus", {"layer": {"structure": name}, "model": model})
    result = run_experiment(config, tmp_path / "runs")
    assert result.state is State.DONE
    losses = [row["val/loss"] for row in run_of(result).history.read() if "val/loss" in row]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", SQUARE)
def test_they_are_refused_with_a_reason_elsewhere(name, tmp_path):
    config = configured("nmt", tmp_path / "corpus", {"layer": {"structure": name}})
    with pytest.raises(PhmrunError, match="matrix is square; valid: equal sizes"):
        run_experiment(config, tmp_path / "runs")
