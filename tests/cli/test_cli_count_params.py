import json
import sys
import types

import pytest


@pytest.fixture
def counting(monkeypatch):
    module = types.ModuleType("phmrun.engine.counting")
    module.count_parameters = lambda config, sizes: {
        "total": 600,
        "dense_total": 1100,
        "trained_total": 600,
        "multiplications": 600,
        "by_scope": {"layer": {"count": 500, "dense": 1000}, "output": {"count": 100, "dense": 100}},
        "modules": [
            {"name": "encoder", "count": 500, "dense": 1000},
            {"name": "encoder.0", "count": 250, "dense": 500},
        ],
        "seen": config.layer.options,
    }
    monkeypatch.setitem(sys.modules, "phmrun.engine.counting", module)
    training = types.ModuleType("phmrun.engine.experiment")
    training.vocabulary_sizes = lambda config: None
    monkeypatch.setitem(sys.modules, "phmrun.engine.experiment", training)


def test_count_params_shows_shares_and_scopes(phmrun, counting):
    out = phmrun("count-params", "nmt").out
    assert "50.0%" in out
    assert "1,100" in out
    assert "encoder" in out
    assert "encoder.0" not in out


@pytest.mark.parametrize("task", ["nmt", "style", "sva", "nli", "parse", "lm"])
def test_counts_are_those_of_a_dry_run(phmrun, task):
    counted = json.loads(phmrun("count-params", task, "--json").out)
    planned = json.loads(phmrun("train", task, "--dry-run", "--json").out)["parameters"]
    assert counted["total"] == planned["total"]
    assert counted["exact"]


def test_a_paper(phmrun):
    rows = json.loads(phmrun("count-params", "--paper", "matsuno", "--json").out)
    assert set(rows[0]) == {"paper", "table", "row", "published", "computed", "verdict", "note"}
    arc = next(row for row in rows if row["row"] == "Symmetry Matrix / Arc Classifier")
    assert (arc["published"], arc["computed"], arc["verdict"]) == ("1200", 1200, "follows")
    assert "follows" in phmrun("count-params", "--paper", "matsuno").out
