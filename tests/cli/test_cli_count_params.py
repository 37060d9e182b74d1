import json
import sys
import types

import pytest


@pytest.fixture
def counting(monkeypatch):
    module = types.ModuleType("phmrun.training.counting")
    module.count_parameters = lambda config: {
        "total": 600,
        "dense_total": 1100,
        "by_scope": {"layer": {"count": 500, "dense": 1000}, "output": {"count": 100, "dense": 100}},
        "modules": [
            {"name": "encoder", "count": 500, "dense": 1000},
            {"name": "encoder.0", "count": 250, "dense": 500},
        ],
        "seen": config.layer.options,
    }
    monkeypatch.setitem(sys.modules, "phmrun.training.counting", module)


def test_table(phmrun, counting):
    out = phmrun("count-params", "nmt").out
    assert "50.0%" in out
    assert "1,100" in out
    assert "encoder" in out
    assert "encoder.0" not in out
    assert "encoder.0" in phmrun("count-params", "nmt", "--depth", "2").out
    assert "encoder" not in phmrun("count-params", "nmt", "--depth", "0").out


def test_json_and_the_options_of_train(phmrun, counting):
    report = json.loads(phmrun("count-params", "nmt", "--layer", "phm", "--n", "8", "--json").out)
    assert report["seen"]["n"] == 8
    assert report["total"] == 600
