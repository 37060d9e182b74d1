import json

import pytest

from benchmarks import networks
from phmrun.errors import PhmrunError


def test_script_measures_networks_against_the_dense_one(capsys):
    arguments = ["--layer", "monarch", "--layer", "circulant", "--vocabulary", "16", "--length", "4", "--tokens", "8"]
    arguments += ["--preset", "tiny", "--batch-size", "1,2", "--repeats", "1"]
    networks.main([*arguments, "--json"])
    shown = capsys.readouterr()
    assert "left out: tiny, circulant" in shown.err
    dense, monarch = json.loads(shown.out)["rows"]
    assert [dense["layer"], monarch["layer"]] == ["dense", "monarch"]
    assert dense["ratios"] == dict.fromkeys(("batch 1", "batch 2", "training"), 1.0)
    assert monarch["ratios"].keys() == dense["ratios"].keys()
    assert monarch["parameters"] < dense["parameters"]
    assert monarch["multiplications"] < dense["multiplications"]


def test_layers_that_fit_nowhere_are_refused_before_measuring():
    with pytest.raises(PhmrunError, match="n = 3 does not divide both sizes"):
        networks.main(["--preset", "tiny", "--layer", "phm n=3"])
