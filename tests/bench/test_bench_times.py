import pytest
from tiny_experiments import configured

from phmrun.bench.run_report import Amount
from phmrun.bench.times import measure_times
from phmrun.config import to_yaml
from phmrun.engine import arithmetic
from phmrun.engine.preparation import build_data
from phmrun.errors import PhmrunError
from phmrun.files import write_json
from phmrun.kernels import Choice
from phmrun.kernels.switch import ONEDNN, switched
from phmrun.ledger import Run
from phmrun.ledger.directory import BENCH
from phmrun.ledger.recorded_run import FORMER, TIMES, RecordedRun
from phmrun.metric import metric_of

AMOUNT = Amount(rounds=2, batches=2, sentences=7)


def test_times_stand_in_the_run_directory_and_are_read_as_scores(run):
    run.write_parameters({"total": 1, "steps_per_epoch": 30})
    assert measure_times(run, ["time/line", "time/test"], AMOUNT, "cpu").keys() == {"time/line", "time/test"}
    measure_times(run, ["time/step", "time/epoch", "time/batch"], AMOUNT, "cpu", clock="cpu")
    summary = RecordedRun(run)
    times = summary.times
    assert times.keys() == TIMES.keys()
    assert summary.score("time/epoch") == pytest.approx(30 * summary.score("time/step"))
    assert summary.score("time/test") == pytest.approx(70 * summary.score("time/line"))
    assert all(len(entry["seconds"]) == 2 and summary.score(name) > 0 for name, entry in times.items())
    assert times["time/line"]["signature"].startswith("items:7 of 70|rounds:2|clock:wall|")
    assert times["time/step"]["signature"].startswith("steps:1|rounds:2|clock:cpu|")
    assert not any(name.startswith("time/") for name in summary.metrics)
    assert metric_of("time/test").lower_is_better


def test_times_are_those_of_the_run_s_kernels(run, monkeypatch):
    monkeypatch.setattr(arithmetic, "choose", lambda requested, products: Choice("onednn", f"asked for {requested}"))
    entry = measure_times(run, ["time/batch"], AMOUNT, "cpu")["time/batch"]
    assert "|kernels:onednn|" in entry["signature"]
    assert entry["machine"]["blas"] == "oneDNN"
    assert switched() != ONEDNN


@pytest.mark.parametrize("task", ["lm", "nli", "parse", "style", "sva"])
def test_an_optimizer_step_of_every_task(task, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path / "cache"))
    config = configured(task, tmp_path / "corpus", {"hardware": {"workers": 1}})
    data = build_data(config)
    data.prepare()
    run = Run.create(tmp_path / "runs", f"{task}-files-dense-1-0123456789ab", to_yaml(config))
    data.vocabulary.save(run.vocabulary)
    measure_times(run, ["time/step"], Amount(rounds=1, batches=1, sentences=1), "cpu")
    assert RecordedRun(run).times["time/step"]["value"] > 0


def test_what_cannot_be_measured(run):
    with pytest.raises(PhmrunError, match="there is no time 'time/day'"):
        measure_times(run, ["time/day"], AMOUNT)


def test_a_damaged_file_is_no_times(tmp_path):
    assert RecordedRun(Run(tmp_path)).times == {}
    (tmp_path / BENCH).write_text("[", encoding="utf-8")
    assert RecordedRun(Run(tmp_path)).times == {}


def test_times_of_an_earlier_release_are_read_and_phases_are_none(tmp_path):
    run = Run(tmp_path)
    former = {"time/step": {"value": 3}, "time/line": {"value": 1}}
    write_json(tmp_path / FORMER, {"times": former})
    run.add_bench({"training": {"median_seconds": 2}})
    run.add_bench({"time/step": {"value": 4}})
    assert RecordedRun(Run(tmp_path)).times == {"time/step": {"value": 4}, "time/line": {"value": 1}}
    assert run.bench()["training"] == {"median_seconds": 2}
