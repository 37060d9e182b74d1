import json
import sys
import types

import pytest

from phmrun.errors import ExitCode
from phmrun.tasks.sva import data as agreement


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
    training = types.ModuleType("phmrun.engine.dry_run")
    training.vocabulary_sizes = lambda config: None
    monkeypatch.setitem(sys.modules, "phmrun.engine.dry_run", training)


def test_count_params_shows_shares_and_scopes(phmrun, counting):
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


@pytest.mark.parametrize(
    ("style", "sign"), [("md", "| layer"), ("latex", r"\toprule"), ("csv", "scope,layer,500,1000,50.0%")]
)
def test_count_params_in_every_format(phmrun, counting, style, sign):
    out = phmrun("count-params", "nmt", "--format", style).out
    assert sign.replace("| layer", "| layer |") in out
    assert "output" in out


def test_data_that_are_not_here_are_counted_by_what_is_asked_for(phmrun, counting):
    result = phmrun("count-params", "nmt", "--data", "multi30k")
    assert "with a vocabulary of up to 4,000" in result.err
    assert json.loads(phmrun("count-params", "nmt", "--json").out)["exact"] is False


@pytest.mark.parametrize("task", ["nmt", "style", "sva", "nli", "parse", "lm"])
def test_counts_are_those_of_a_dry_run(phmrun, task):
    counted = json.loads(phmrun("count-params", task, "--json").out)
    planned = json.loads(phmrun("train", task, "--dry-run", "--json").out)["parameters"]
    assert counted["total"] == planned["total"]
    assert counted["exact"]


def test_neither_task_nor_paper(phmrun):
    result = phmrun("count-params")
    assert result.code == 2
    assert "--paper" in result.err


def test_an_unknown_paper(phmrun):
    result = phmrun("count-params", "--paper", "phn")
    assert result.code == 2
    assert "Did you mean 'phm'?" in result.err


def test_a_paper(phmrun):
    rows = json.loads(phmrun("count-params", "--paper", "matsuno", "--json").out)
    assert set(rows[0]) == {"paper", "table", "row", "published", "computed", "verdict", "note"}
    arc = next(row for row in rows if row["row"] == "Symmetry Matrix / Arc Classifier")
    assert (arc["published"], arc["computed"], arc["verdict"]) == ("1200", 1200, "follows")
    assert "follows" in phmrun("count-params", "--paper", "matsuno", "--format", "csv").out


def test_a_task_without_training_data_is_counted_by_what_is_asked_for(phmrun, monkeypatch):
    """Task of an installed package without a built-in corpus."""
    monkeypatch.setattr(agreement, "corpus", lambda section, cache: agreement._corpus({}, {}, {}))
    result = phmrun("count-params", "sva", "--json")
    assert result.code == 0
    assert json.loads(result.out)["exact"] is False
    refused = phmrun("train", "sva", "--dry-run")
    assert (refused.code, "there are no train data" in refused.err) == (ExitCode.DATA, True)
