"""``phmrun plot`` on a run directory made by hand, and on one that was trained."""

import pytest

from phmrun.ledger import Run


@pytest.fixture
def runs(shared_run):
    return shared_run("lm").path.parent


def test_history(phmrun, runs, tmp_path):
    (run,) = runs.iterdir()
    assert Run(run).parameters()["steps_per_epoch"] > 1
    result = phmrun("plot", "history", run.name, "--runs-dir", str(runs), "--out", str(tmp_path / "a.svg"))
    assert result.out.strip() == str(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


def test_bad_arguments_of_plot_are_usage_errors(phmrun, runs, tmp_path):
    (run,) = runs.iterdir()
    assert "valid: epoch, step, time" in phmrun("plot", "history", str(run), "--over", "steps").err
    assert "clock-step" not in phmrun("plot", "pareto", str(run), "--over", "nosuch").err
    assert "Measure it first: `phmrun export" in phmrun("plot", "pareto", str(run), "--over", "latency").err
    result = phmrun("plot", "history", str(run), "--out", str(tmp_path / "a.bmp"))
    assert result.code == 2
    assert ".png" in result.err
    assert "not all of the runs have the score" in phmrun("plot", "history", str(run), "--score", "val/bleu").err
