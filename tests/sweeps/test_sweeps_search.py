"""Searches around a cell: what is tried, what is kept, and that a search goes on where it was cut off."""

import json
import re
import subprocess
import sys

import pytest

from phmrun.errors import ExitCode, PhmrunError
from phmrun.sweeps.search import Choice, Interval, read_variation

optuna = pytest.importorskip("optuna")

STEADY = {"training": {"optimizer": {"lr": 0.1}, "schedule": {"name": "constant"}}}
ONE = {"task": "toy", "base": STEADY}
TWO = {**ONE, "grid": {"layer": ["dense", {"structure": "phm", "n": 2}]}}
RATES = "training.optimizer.lr=1e-5..1e-1"


@pytest.mark.parametrize(
    ("text", "variation"),
    [
        ("training.optimizer.lr=1e-4..1e-2", Interval("training.optimizer.lr", 1e-4, 1e-2)),
        ("model.width=8..64", Interval("model.width", 8, 64)),
        ("model.dropout=0..0.5", Interval("model.dropout", 0.0, 0.5)),
        ("model.dropout=0.1,0.2", Choice("model.dropout", (0.1, 0.2))),
        ("model.tie=true,false", Choice("model.tie", (True, False))),
        ("layer.structure=phm", Choice("layer.structure", ("phm",))),
    ],
)
def test_what_is_varied(text, variation):
    assert read_variation(text) == variation


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("training.optimizer.lr", "is not of the form KEY=LOW..HIGH"),
        ("training.optimizer.lr=", "is not of the form KEY=LOW..HIGH"),
        ("training.optimizer.lr=1e-2..1e-4", "the interval '1e-2..1e-4' is empty"),
        ("training.optimizer.lr=low..1e-4", "the ends of 'low..1e-4' are not numbers"),
    ],
)
def test_what_is_no_variation(text, what):
    with pytest.raises(PhmrunError, match=re.escape(what)):
        read_variation(text)


def test_numbers_are_written_with_three_digits_and_stay_inside():
    rates = Interval("lr", 0.0012345, 0.1)
    assert rates.rounded(0.0123456) == 0.0123
    assert rates.rounded(0.0012346) == 0.0012345
    assert Interval("model.width", 8, 64).rounded(17) == 17


@pytest.fixture
def search(phmrun):
    return lambda *arguments: phmrun("search", *arguments)


def trials(result):
    assert result.exit_code == 0, result.output
    return [load["trials"] for load in json.loads(result.stdout)]


def test_a_search_nears_the_best_rate(search, written):
    file = written(TWO)
    (actual,) = trials(search(file, "--vary", RATES, "--only", "layer=phm", "--trials", "12", "--json"))
    assert len(actual) == 12
    assert [item["score"] for item in actual] == sorted(item["score"] for item in actual)
    assert 3e-4 < actual[0]["values"]["training.optimizer.lr"] < 3e-3
    assert len({item["run_id"] for item in actual}) == 12


def test_a_search_goes_on(search, written, tmp_path):
    """Nothing is run again, and a larger number of trials adds to those that there are."""
    file = written(TWO)
    asked = (file, "--vary", RATES, "--only", "layer=dense", "--json")
    (first,) = trials(search(*asked, "--trials", "3"))
    starts = {path.parent.name: path.read_text() for path in (tmp_path / "runs").glob("*/starts")}
    assert len(starts) == 3
    (more,) = trials(search(*asked, "--trials", "5", "--jobs", "2"))
    assert {item["number"]: item["values"] for item in first}.items() <= {
        n["number"]: n["values"] for n in more
    }.items()
    assert len(more) == 5
    for name, text in starts.items():
        assert (tmp_path / "runs" / name / "starts").read_text() == text


def test_a_trial_that_was_killed_is_run_to_its_end(search, written):
    file = written({**ONE, "base": {**STEADY, "data": {"name": "killed"}}})
    asked = (file, "--vary", RATES, "--trials", "1")
    stopped = search(*asked)
    assert isinstance(stopped.exception, PhmrunError)
    assert stopped.exception.code == ExitCode.SWEEP
    assert "was stopped before its end" in str(stopped.exception)
    (actual,) = trials(search(*asked, "--json"))
    assert [item["number"] for item in actual] == [0]


def test_failures_are_trials_without_a_score(search, written):
    file = written({"task": "toy", "base": {**STEADY, "model": {"width": 6}, "layer": {"structure": "phm", "n": 2}}})
    result = search(file, "--vary", "data.name=oom", "--trials", "1")
    assert result.exit_code == ExitCode.SWEEP
    assert "best:" not in result.stdout
    (actual,) = trials(search(file, "--vary", "layer.n=2,4", "--trials", "8", "--json"))  # 4 does not divide 6
    assert {item["values"]["layer.n"]: item["score"] is None for item in actual} == {2: False, 4: True}


def test_the_table_names_the_best(search, written):
    result = search(written(ONE), "--vary", RATES, "--vary", "model.width=8,16", "--trials", "4")
    assert result.exit_code == 0
    assert "val/loss" in result.stdout
    best = result.stdout.splitlines()[-1]
    assert re.fullmatch(r"best: --set training\.optimizer\.lr=\S+ --set model\.width=(8|16)", best)


def test_a_key_that_does_not_exist(search, written):
    result = search(written(ONE), "--vary", "training.optimizer.rate=1e-4..1e-2", "--trials", "2")
    assert isinstance(result.exception, PhmrunError)
    assert "training.optimizer.rate" in str(result.exception)


def test_without_optuna(search, written, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    result = search(written(ONE), "--vary", RATES)
    assert "pip install 'phmrun[search]'" in str(result.exception)


def test_the_search_is_not_imported_for_help():
    code = "import sys; from phmrun.cli import sweep; print('optuna' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
