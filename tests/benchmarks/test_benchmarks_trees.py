import json
import sys
import types

import pytest
import torch

from benchmarks import trees


def test_each_kind_at_each_length():
    rows = list(trees.measure((3, 6), sentences=4, rounds=1, at_least=0.0))
    assert [(row.words, row.scores) for row in rows] == [(3, "random"), (3, "peaked"), (6, "random"), (6, "peaked")]
    assert all(rate > 0 for row in rows for rate in row.rates.values())
    assert rows[0].to_json()["sentences"] == 4


def test_random_scores_are_searched_and_peaked_ones_mostly_not():
    searched = {row.scores: row.searched for row in trees.measure((20,), sentences=64, rounds=1, at_least=0.0)}
    assert searched["random"] > 0.8
    assert 0.0 < searched["peaked"] < 0.4


def test_peaks_without_errors_are_trees(monkeypatch):
    monkeypatch.setattr(trees, "STRAYING", 0.0)
    monkeypatch.setattr(trees, "SURE", 100.0)
    scores = trees.drawn("peaked", 12, 30)
    assert trees._searched(scores, torch.full((30,), 13)) == 0.0


@pytest.fixture
def supar(monkeypatch):
    """Stands in for supar, and keeps what it is called with."""
    calls = []
    fn = types.ModuleType("supar.structs.fn")
    fn.mst = lambda scores, mask: calls.append((scores, mask))
    common = types.ModuleType("supar.utils.common")
    common.MIN = -1e32
    for name, module in {"supar.structs.fn": fn, "supar.utils.common": common}.items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("supar", "supar.structs", "supar.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(trees, "find_spec", lambda name: name)
    return calls


def test_supar_is_called_as_its_parsers_do(supar):
    (row, _) = trees.measure((4,), sentences=2, rounds=1, at_least=0.0)
    assert row.ratios.keys() == {"supar"}
    scores, mask = supar[0]
    assert mask.tolist() == [[False, True, True, True, True]] * 2
    assert scores.diagonal(0, 1, 2)[1:].eq(-1e32).all()


def test_script_prints_a_table_or_json(capsys):
    trees.main(["--length", "3,5", "--sentences", "4", "--repeats", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["words"], row["scores"]) for row in rows] == [
        (3, "random"), (3, "peaked"), (5, "random"), (5, "peaked"),
    ]  # fmt: skip
    trees.main(["--length", "3", "--sentences", "4", "--repeats", "1"])
    assert "Sentences per second" in capsys.readouterr().out
