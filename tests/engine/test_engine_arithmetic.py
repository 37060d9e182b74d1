"""Library of matrix products: recorded by a run, kept on resume, by ``eval`` and by ``reproduce``."""

import pytest
import torch
from exact_resume import killed, outcome, same
from tiny_experiments import configured, run_experiment, run_of

from phmrun.engine import bookkeeping
from phmrun.engine.bookkeeping import set_threads
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.reproduction import reproduce
from phmrun.engine.trained_model import open_run
from phmrun.kernels import switch
from phmrun.kernels.choice import Choice

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

    monkeypatch.setattr(bookkeeping, "choose", chosen)
    return requests


def test_a_run_records_its_library_and_keeps_it(requests, tmp_path):
    config = configured("nmt", tmp_path / "corpus", SHORT)
    whole = run_of(run_experiment(config, tmp_path / "whole"))
    assert [entry["kernels"] for entry in whole.environment()] == ["onednn"]
    assert switch.switched() != switch.ONEDNN
    killed(config, tmp_path / "runs", ("micro-batch", 6))
    requests.clear()
    run = run_of(run_experiment(config, tmp_path / "runs"))
    assert requests[0] == "onednn"
    assert [entry["kernels"] for entry in run.environment()] == ["onednn", "onednn"]
    same(outcome(whole), outcome(run))


def test_eval_and_reproduce_take_the_library_of_the_run(requests, tmp_path):
    run = run_of(run_experiment(configured("sva", tmp_path / "corpus", SHORT), tmp_path / "runs"))
    requests.clear()
    evaluate_run(open_run(run))
    assert requests == ["onednn"]
    assert reproduce(run, tmp_path / "again").identical
    assert set(requests) == {"onednn"}


@pytest.fixture
def cores(monkeypatch):
    """A machine of four cores; the cores that are busy, and the numbers of threads that are set."""
    state = {"busy": 0, "threads": 4}
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(bookkeeping, "usable_cores", lambda: 4)
    monkeypatch.setattr(bookkeeping, "busy_cores", lambda: state["busy"])
    monkeypatch.setattr(torch, "get_num_threads", lambda: state["threads"])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: state.update(threads=number))
    return state


def test_a_run_keeps_its_number_of_threads(cores):
    cores["busy"] = 3
    assert set_threads(0, [{"threads": 2}]) == 2
    assert set_threads(3, [{"threads": 2}]) == 3
    assert set_threads(0, [{}]) == 1
