"""Updates of a trained run: what is trained and stored, exact resume, and what is refused."""

import json

import pytest
import torch
from exact_resume import killed, outcome, same
from tiny_experiments import configured, run_experiment, run_of

from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.trained_model import open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run

pytestmark = pytest.mark.long

LAYER = {"structure": "added", "of": "low-rank", "options": "rank=2"}
RATE = {"training": {"optimizer": {"lr": 0.03}}}


def tensors(run, name="last.ckpt"):
    return torch.load(run.checkpoints / name, weights_only=True)["state_dict"]


@pytest.fixture
def parent(tiny_run, request):
    return tiny_run(getattr(request, "param", "lm"), "dense")


def adapted(task, tmp_path, parent, *overrides):
    return configured(task, tmp_path / "corpus", {"layer": LAYER}, RATE, {"adapts": str(parent.path)}, *overrides)


@pytest.mark.parametrize(("parent", "task"), [(task, task) for task in ("lm", "nmt")], indirect=["parent"])
def test_updates_alone_are_trained_stored_and_resumed(task, parent, tmp_path):
    config = adapted(task, tmp_path, parent)
    straight = run_of(run_experiment(config, tmp_path / "runs"))
    state = tensors(straight)
    assert all(".inside." in name or name.endswith("origin") for name in state)
    size = sum(tensor.numel() for tensor in state.values() if tensor.is_floating_point())
    counts = json.loads(straight.parameters_path.read_text())
    assert counts["trained_total"] == counts["stored_total"] == size
    assert counts["served_total"] == json.loads(parent.parameters_path.read_text())["total"]
    assert counts["total"] == counts["served_total"] + size
    facts = json.loads((straight.path / "base.json").read_text())
    assert facts["run"] == parent.id
    killed(config, tmp_path / "again", ("micro-batch", 11))
    resumed = run_of(run_experiment(config, tmp_path / "again"))
    assert resumed.id == straight.id
    same(outcome(straight), outcome(resumed))
    assert evaluate_run(open_run(straight)).keys() <= straight.metrics().keys()


def test_adapted_network_starts_as_the_parent_and_keeps_its_weights(parent, tmp_path):
    run = run_of(run_experiment(adapted("lm", tmp_path, parent), tmp_path / "runs"))
    trained, base = open_run(run), open_run(parent)
    trained.load()
    base.load()
    theirs = dict(base.module.network.named_parameters())
    updates = {name: part for name, part in trained.module.network.named_modules() if getattr(part, "adapter", False)}
    assert updates
    for name, update in updates.items():
        weight = base.module.network.get_submodule(name).materialize()
        assert torch.equal(update.base, weight)
        assert not torch.equal(update.materialize(), weight)
    for name, parameter in trained.module.network.named_parameters():
        if ".inside." not in name:
            assert torch.equal(parameter, theirs[name])


@pytest.mark.parametrize(("parent", "task"), [("lm", "lm"), ("nmt", "nmt")], indirect=["parent"])
def test_merged_run_predicts_the_same_without_its_base(task, parent, tmp_path, phmrun):
    run = run_of(run_experiment(adapted(task, tmp_path, parent), tmp_path / "runs"))
    merging = ("compress", str(run.path), "--layer", "dense", "--calibrate", "0", "--runs-dir", str(run.path.parent))
    assert phmrun(*merging).code in (0, None)
    (path,) = (path for path in run.path.parent.iterdir() if path not in (run.path, parent.path))
    base_size = json.loads(parent.parameters_path.read_text())["total"]
    parent.path.rename(tmp_path / "moved")
    merged = Run(path)
    files = [sorted(folder.glob("predictions/*")) for folder in (path, run.path)]
    assert [file.read_text() for file in files[0]] == [file.read_text() for file in files[1]]
    assert json.loads(merged.parameters_path.read_text())["total"] == base_size
    scores = evaluate_run(open_run(merged))
    for name, score in run.metrics().items():
        if name in scores and "per_second" not in name:
            assert scores[name]["value"] == pytest.approx(score["value"], rel=1e-5), name


def test_random_base_is_a_control_with_the_parent_s_other_weights(parent, tmp_path):
    config = adapted("lm", tmp_path, parent, {"layer": {**LAYER, "base": "random"}})
    run = run_of(run_experiment(config, tmp_path / "runs"))
    counts = json.loads(run.parameters_path.read_text())
    assert counts["stored_total"] == counts["trained_total"] < counts["total"] < counts["served_total"]
    trained, base = open_run(run), open_run(parent)
    trained.load()
    base.load()
    mine, theirs = (dict(model.module.network.named_parameters()) for model in (trained, base))
    shared = [name for name in mine if ".inside." not in name]
    assert shared
    assert all(torch.equal(mine[name], theirs[name]) for name in shared)


def test_base_run_that_changed_or_is_gone_is_refused(parent, tmp_path):
    config = adapted("lm", tmp_path, parent)
    run = run_of(run_experiment(config, tmp_path / "runs"))
    facts = json.loads((run.path / "base.json").read_text())
    parent.path.rename(tmp_path / "moved")
    with pytest.raises(PhmrunError, match="weights are updated is missing") as gone:
        open_run(run)
    assert gone.value.code is ExitCode.DATA
    (tmp_path / "moved").rename(parent.path)
    run.write(run.path / "base.json", json.dumps({**facts, "sha256": "0" * 64}))
    with pytest.raises(PhmrunError, match="other weights than at the beginning"):
        open_run(run)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer": LAYER}, "updates the weights of a run, and none is named"),
        ({"adapts": "runs/x"}, "no layer updates its weights"),
        ({"layer": LAYER, "adapts": "runs/x"}, "is missing"),
    ],
)
def test_base_and_layer_belong_together(settings, message, tmp_path):
    config = configured("lm", tmp_path / "corpus", settings)
    with pytest.raises(PhmrunError, match=message):
        run_experiment(config, tmp_path / "runs")
