import pytest
import torch
from tiny_experiments import configured

from phmrun.bench import run as bench
from phmrun.bench.run import Amount, bench_run
from phmrun.bench.timing import Timing
from phmrun.config import to_yaml
from phmrun.engine import bookkeeping
from phmrun.engine.data import build_data
from phmrun.engine.trained_model import open_run
from phmrun.kernels.choice import Choice
from phmrun.kernels.switch import ONEDNN, switched
from phmrun.ledger import Run

pytestmark = pytest.mark.long

AMOUNT = Amount(rounds=2, batches=4, items=10)
ONCE = Amount(rounds=1, batches=2, items=10)
PHASES = ["prediction, batch 1", "prediction, batch 64", "validation", "training"]


def test_a_run_is_measured_and_recorded(run):
    report = bench_run(run, amount=AMOUNT)
    assert (report["run_id"], report["layer"]) == (run.id, "phm n=4")
    assert {"processor", "threads", "torch", "device", "blas"} <= report["machine"].keys()
    phases = {phase["phase"]: phase for phase in report["phases"]}
    assert list(phases) == PHASES
    assert [phase["amount"] for phase in report["phases"][:2]] == [1, 10]
    for name, phase in phases.items():
        assert len(phase["seconds"]) == 2
        assert phase["rate"] == phase["amount"] / phase["median_seconds"]
        assert phase["peak_memory_bytes"] > 2**20
        assert run.bench()[name]["median_seconds"] == phase["median_seconds"]
    assert phases["training"]["steps"] == 2  # 4 batches, 2 of them to a step


def test_all_compute_with_the_run_s_kernels(run, monkeypatch):
    seen = []

    def interleaved(calls, **_options):
        """Note the library that all calls would have."""
        seen.append((sorted(calls), switched()))
        return {name: Timing((1.0,)) for name in calls}

    monkeypatch.setattr(bench, "interleave", interleaved)
    monkeypatch.setattr(bookkeeping, "choose", lambda requested, products: Choice("onednn", f"asked for {requested}"))
    report = bench_run(run, amount=ONCE, only="training")
    assert seen == [(["training"], ONEDNN)]
    assert report["machine"]["blas"] == "oneDNN"
    assert "|kernels:onednn|" in run.bench()["time/step"]["signature"]
    assert switched() != ONEDNN


@pytest.mark.parametrize("task", ["lm", "parse"])
def test_other_tasks_are_measured(task, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path / "cache"))
    config = configured(task, tmp_path / "corpus", {"hardware": {"workers": 1}})
    data = build_data(config)
    data.prepare()
    tried = Run.create(tmp_path / "runs", f"{task}-files-dense-1-0123456789ab", to_yaml(config))
    data.vocabulary.save(tried.vocabulary)
    bench_run(tried, amount=Amount(rounds=1, batches=1, items=1))
    assert Run(tried.path, lenient=True).times["time/step"]["value"] > 0


def test_training_makes_the_steps_that_training_makes(run, monkeypatch):
    """Two steps of two micro-batches against the same by hand: the windows' losses over their tokens, clipped."""
    trained, other = open_run(run), open_run(run)
    data = build_data(trained.config)
    ours, by_hand = trained.module, other.module
    by_hand.load_state_dict(ours.state_dict())
    monkeypatch.setattr(ours, "make_optimizer", lambda network: torch.optim.SGD(network.parameters(), 1.0))
    monkeypatch.setattr(ours, "schedule", lambda step: 0.5)
    bench.training(trained, data=data, batches=4, device="cpu")()
    optimizer = torch.optim.SGD(by_hand.train().parameters(), 0.5)
    batches = [batch for batch, _ in zip(data.train_dataloader(), range(4), strict=False)]
    for first, second in (batches[:2], batches[2:]):
        units = first.units + second.units
        ((by_hand.loss(first).total + by_hand.loss(second).total) / units).backward()
        torch.nn.utils.clip_grad_norm_(by_hand.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    for name, parameter in by_hand.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name), parameter, msg=lambda text, name=name: f"{name}: {text}")
