"""Library of matrix products: recorded by a run, kept on resume, by ``eval`` and by ``reproduce``."""

import json

import pytest
import torch
from tiny_experiments import configured, run_experiment, run_of

from phmrun.engine import arithmetic, experiment
from phmrun.engine.arithmetic import kernels_of, set_threads
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.reproduction import reproduce
from phmrun.engine.trained_model import open_run
from phmrun.kernels import Choice, switch
from phmrun.ledger.environment import differences

pytestmark = pytest.mark.skipif(not switch.has_switch(), reason="this torch has no switch")
SHORT = {"training": {"max_steps": 4, "validate_every": 2, "checkpoint_every": 2}, "hardware": {"accelerator": "cpu"}}


@pytest.fixture
def requests(monkeypatch):
    """A processor on which "auto" is oneDNN; the libraries that were requested."""
    requests = []

    def chosen(requested, products):
        requests.append(requested)
        assert products()
        return Choice("torch" if requested == "torch" else "onednn", "patched")

    monkeypatch.setattr(arithmetic, "choose", chosen)
    return requests


def interrupted(config, runs, monkeypatch):
    """A run whose process was stopped after two of four steps."""

    def stop(row):
        if "val/loss" in row:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(experiment, "tell_validation", stop)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(config, runs)


def weights(run):
    return torch.load(run.checkpoints / "last.ckpt", weights_only=True)["state_dict"]


def same(one, other):
    return all(torch.equal(weight, other[name]) for name, weight in one.items())


def test_a_run_records_its_library_and_keeps_it(requests, monkeypatch, tmp_path):
    config = configured("nmt", tmp_path / "corpus", SHORT)
    whole = run_of(run_experiment(config, tmp_path / "whole"))
    assert [entry["kernels"] for entry in whole.environment()] == ["onednn"]
    assert switch.switched() != switch.ONEDNN
    interrupted(config, tmp_path / "runs", monkeypatch)
    requests.clear()
    run = run_of(run_experiment(config, tmp_path / "runs"))
    assert requests[0] == "onednn"
    assert [entry["kernels"] for entry in run.environment()] == ["onednn", "onednn"]
    assert same(weights(whole), weights(run))


def test_a_run_of_an_earlier_version_goes_on_without_onednn(requests, monkeypatch, tmp_path, caplog):
    config = configured("nmt", tmp_path / "corpus", SHORT)
    with monkeypatch.context() as patched:
        patched.setattr(arithmetic, "choose", lambda *_: Choice("torch", "patched"))
        whole = run_of(run_experiment(config, tmp_path / "whole"))
        interrupted(config, tmp_path / "runs", monkeypatch)
    (path,) = (tmp_path / "runs").glob("*/environment.json")
    record = json.loads(path.read_text())
    for entry in record["segments"]:
        del entry["kernels"], entry["kernels_reason"]
    path.write_text(json.dumps(record))
    path.with_name("manifest.json").unlink()
    run = run_of(run_experiment(config, tmp_path / "runs"))
    assert set(requests) == {"torch"}
    assert same(weights(whole), weights(run))
    assert "another environment" not in caplog.text
    path.unlink()  # older still: no record at all
    path.with_name("manifest.json").unlink()
    requests.clear()
    (run.path / "status.json").write_text(
        json.dumps({**json.loads((run.path / "status.json").read_text()), "state": "interrupted"})
    )
    run_experiment(config, tmp_path / "runs")
    assert set(requests) == {"torch"}


def test_eval_and_reproduce_take_the_library_of_the_run(requests, tmp_path):
    run = run_of(run_experiment(configured("sva", tmp_path / "corpus", SHORT), tmp_path / "runs"))
    requests.clear()
    evaluate_run(open_run(run))
    assert requests == ["onednn"]
    assert reproduce(run, tmp_path / "again").identical
    assert set(requests) == {"onednn"}


def test_another_library_is_a_difference_and_none_is_torch():
    assert differences({"kernels": "torch"}, {"kernels": "onednn"}) == ["kernels: torch, then onednn"]
    assert not differences({}, {"kernels": "torch"})


@pytest.mark.parametrize(
    "other",
    [{"training": {"precision": "bf16-mixed"}}, {"hardware": {"compile": True}}, {"hardware": {"accelerator": "gpu"}}],
)
def test_other_arithmetic_leaves_the_library_alone(requests, tmp_path, other, caplog):
    config = configured("nmt", tmp_path / "corpus", SHORT, other)
    assert kernels_of(config, lambda: pytest.fail("no probe is needed")).library == "torch"
    assert not requests
    assert not caplog.records


def test_a_refusal_is_one_line_of_the_log(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(arithmetic, "choose", lambda *_: Choice("torch", "this torch has no switch", refused=True))
    config = configured("nmt", tmp_path / "corpus", SHORT, {"hardware": {"kernels": "onednn"}})
    assert kernels_of(config, lambda: None).library == "torch"
    (record,) = caplog.records
    assert "hardware.kernels=onednn is not possible" in record.message


@pytest.fixture
def cores(monkeypatch):
    """A machine of four cores; the cores that are busy, and the numbers of threads that are set."""
    state = {"busy": 0, "threads": 4}
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(arithmetic, "usable_cores", lambda: 4)
    monkeypatch.setattr(arithmetic, "busy_cores", lambda: state["busy"])
    monkeypatch.setattr(torch, "get_num_threads", lambda: state["threads"])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: state.update(threads=number))
    return state


@pytest.mark.parametrize(("busy", "threads"), [(0, 4), (1, 3), (4, 1), (9, 1)])
def test_a_new_run_leaves_busy_cores_alone(cores, busy, threads, caplog):
    caplog.set_level("INFO", logger="phmrun")
    cores["busy"] = busy
    assert set_threads() == threads
    assert len(caplog.records) == (busy > 0)


def test_a_run_keeps_its_number_of_threads(cores):
    cores["busy"] = 3
    assert set_threads(0, [{"threads": 2}]) == 2
    assert set_threads(3, [{"threads": 2}]) == 3
    assert set_threads(0, [{}]) == 1


def test_the_environment_decides_before_the_load(cores, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    cores["busy"] = 3
    assert set_threads() == 4
    assert set_threads(0, [{"threads": 2}]) == 4
