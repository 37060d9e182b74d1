import json

import pytest


def test_count_params_shows_shares_and_scopes(phmrun):
    command = ("count-params", "nmt", "--layer", "phm", "--n", "2")
    count = json.loads(phmrun(*command, "--json").out)
    out = phmrun(*command).out
    assert f"{count['total'] / count['dense_total']:.1%}" in out
    assert f"{count['dense_total']:,}" in out
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
    assert "leave out the task" in phmrun("count-params", "nmt", "--paper", "matsuno").err
