import pytest
import torch
from tiny_experiments import configured

from phmrun.bench import run as bench
from phmrun.bench.run import Amount, bench_run, evenly
from phmrun.bench.timing import Timing
from phmrun.config import LayerConfig, to_yaml
from phmrun.config.sections import MapConfig
from phmrun.engine import arithmetic
from phmrun.engine.preparation import build_data
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.kernels import Choice
from phmrun.kernels.switch import ONEDNN, switched
from phmrun.layers.network import structures_of
from phmrun.ledger import Run
from phmrun.ledger.recorded_run import TIMES, RecordedRun
from phmrun.metric import metric_of
from phmrun.results.costs import COSTS

AMOUNT = Amount(rounds=2, batches=4, items=20)
ONCE = Amount(rounds=1, batches=2, items=10)
PHASES = ["prediction, batch 1", "prediction, batch 64", "validation", "training"]


def test_a_run_beside_its_dense_model_is_measured_and_recorded(run):
    report = bench_run(run, against={"dense": None}, amount=AMOUNT)
    assert (report["run_id"], report["layer"]) == (run.id, "phm n=4")
    assert {"processor", "threads", "torch", "device", "blas"} <= report["machine"].keys()
    phases = {phase["phase"]: phase for phase in report["phases"]}
    assert list(phases) == PHASES
    assert [phase["amount"] for phase in report["phases"][:2]] == [2, 20]
    for name, phase in phases.items():
        both = ["run"] if name.startswith("prediction") else ["run", "dense"]
        assert list(phase["rates"]) == list(phase["seconds"]) == both
        assert list(phase["ratios"]) == both[1:]
        assert all(len(seconds) == 2 for seconds in phase["seconds"].values())
        assert phase["peak_memory_bytes"] > 2**20
        assert run.bench()[name]["median_seconds"] == phase["median_seconds"]
    assert phases["training"]["steps"] == 2  # 4 batches, 2 of them to a step


def test_times_of_paper_tables_are_read_as_scores(run):
    run.write_parameters({"total": 1, "steps_per_epoch": 30})
    bench_run(run, amount=AMOUNT)
    summary = RecordedRun(run)
    times = summary.times
    assert times.keys() == TIMES.keys()
    assert summary.score("time/epoch") == pytest.approx(30 * summary.score("time/step"))
    assert summary.score("time/test") == pytest.approx(70 * summary.score("time/line"))
    assert COSTS["step-time"].of(summary) == pytest.approx(summary.score("time/step"))
    assert all(len(entry["seconds"]) == 2 and summary.score(name) > 0 for name, entry in times.items())
    clock = "cpu" if torch.get_num_threads() == 1 else "wall"
    assert times["time/line"]["signature"].startswith(f"items:20 of 70|rounds:2|clock:{clock}|")
    assert times["time/step"]["signature"].startswith(f"steps:2|rounds:2|clock:{clock}|")
    assert metric_of("time/test").lower_is_better


def test_all_compute_with_the_run_s_kernels(run, monkeypatch):
    seen = []

    def interleaved(calls, **_options):
        """Note the library that all calls would have."""
        seen.append((sorted(calls), switched()))
        return {name: Timing((1.0,)) for name in calls}

    monkeypatch.setattr(bench, "interleave", interleaved)
    monkeypatch.setattr(arithmetic, "choose", lambda requested, products: Choice("onednn", f"asked for {requested}"))
    report = bench_run(run, against={"dense": None}, amount=ONCE, parts=["training"])
    assert seen == [(["dense", "run"], ONEDNN)]
    assert report["machine"]["blas"] == "oneDNN"
    assert "|kernels:onednn|" in run.bench()["time/step"]["signature"]
    assert switched() != ONEDNN


def test_the_dense_opponent_has_no_structure_in_single_maps(run):
    trained = open_run(run)
    maps = (MapConfig(name="encoder.0.attention.block.output", layer=LayerConfig(structure="low-rank", rank=2)),)
    object.__setattr__(trained, "config", trained.config.model_copy(update={"maps": maps}))
    opponent = bench._opponent(None, trained, "cpu")
    assert {structure.name for structure in structures_of(opponent.module.network).values()} == {"dense"}


@pytest.mark.parametrize("task", ["lm", "nli", "parse", "style", "sva"])
def test_every_task_is_measured(task, tmp_path, monkeypatch, run):
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path / "cache"))
    config = configured(task, tmp_path / "corpus", {"hardware": {"workers": 1}})
    data = build_data(config)
    data.prepare()
    tried = Run.create(tmp_path / "runs", f"{task}-files-dense-1-0123456789ab", to_yaml(config))
    data.vocabulary.save(tried.vocabulary)
    bench_run(tried, amount=Amount(rounds=1, batches=1, items=1), against={tried.id: tried})
    assert RecordedRun(tried).times["time/step"]["value"] > 0
    with pytest.raises(PhmrunError, match="cannot be set against one of"):
        bench_run(tried, against={run.id: run})


def test_a_run_without_a_checkpoint_is_measured_and_one_without_a_vocabulary_refused(run, tmp_path, caplog):
    bench_run(run, amount=ONCE, parts=["validation"])
    assert "no checkpoint" in caplog.text
    bare = Run.create(tmp_path, run.id, run.config_path.read_text(encoding="utf-8"))
    with pytest.raises(PhmrunError, match="not been trained"):
        bench_run(bare)


@pytest.mark.parametrize(
    ("total", "count", "expected"), [(10, 3, [0, 4, 9]), (3, 9, [0, 1, 2]), (5, 1, [0]), (0, 2, [])]
)
def test_evenly(total, count, expected):
    assert evenly(total, count) == expected


def test_training_makes_the_steps_that_training_makes(run, monkeypatch):
    """Two steps of two micro-batches against the same by hand: the windows' losses over their tokens, clipped."""
    trained, other = open_run(run), open_run(run)
    data = build_data(trained.config)
    ours, by_hand = trained.module, other.module
    by_hand.load_state_dict(ours.state_dict())
    monkeypatch.setattr(ours, "make_optimizer", lambda parameters: torch.optim.SGD(parameters, 1.0))
    monkeypatch.setattr(ours, "schedule", lambda step: 0.5)
    bench.training(trained, like=trained, data=data, batches=4, device="cpu")()
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
