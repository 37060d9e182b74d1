"""In every task a share of the training data can take the place of the validation set."""

import pytest
from tiny_experiments import SETTINGS, SPLITS, configured

from phmrun.engine.data import build_data

COUNTED = {"lm": "lines", "nli": "items", "sva": "items"}


@pytest.mark.parametrize("task", SETTINGS)
def test_a_share_of_the_training_data_is_held_out(task, tmp_path):
    held = {"hold_out": 0.2} if task in ("nmt", "style") else {"hold_out": 0.2, "dev": None}
    data = build_data(configured(task, tmp_path, {"data": held}))
    everything = len(list(build_data(configured(task, tmp_path)).inputs("train")))
    data.prepare()
    splits = data.statistics()["splits"]
    sizes = {split: splits[split][COUNTED.get(task, "sentences")] for split in ("train", "dev")}
    assert sum(sizes.values()) == (everything if task == "parse" else SPLITS["train"])
    assert 15 <= sizes["dev"] <= 45
    assert not set(data.inputs("train")) & set(data.inputs("dev")) or task in ("lm", "parse")
    assert len(list(data.inputs("test"))) > 0
