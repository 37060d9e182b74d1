"""Search for a smaller model: order of effort, goal, resume, page and recommendation."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from tiny_experiments import configured, run_experiment, run_of

from phmrun.engine.module import TrainingModule
from phmrun.ledger import Run
from phmrun.sweeps import shrink
from phmrun.sweeps.shrink import Goal, Search, recommended

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run of a tiny translator."""
    folder = tmp_path_factory.mktemp("shrunk")
    config = configured("nmt", folder / "corpus", {"training": {"max_steps": 4, "checkpoint_every": 1}})
    return run_of(run_experiment(config, folder / "runs"))


@pytest.fixture
def measured(monkeypatch):
    """Measurements without processes: bytes are those of the weights, and every score is 30."""
    calls = []

    def serve_all(run, formats, *, split, plugins, reference):
        (item,) = formats
        calls.append((run.id, item.label, split))
        total = int(run.parameters()["total"])
        size = total * {"none": 4, "bfloat16": 2, "int8": 1, "int4+16": 0.75, "int4": 0.6}[item.precision]
        sizes = {"label": item.label, "parameters": total, "bytes": size, "changed": 0}
        return [{**sizes, "single_ms": 5.0, "latency_ratio": 1.0, "metric": "bleu", "score": 30.0}]

    monkeypatch.setattr(shrink, "serve_all", serve_all)
    return calls


@pytest.fixture
def fresh(run, tmp_path):
    """The run in a directory of its own."""
    shutil.copytree(run.path, tmp_path / run.id)
    return Run(tmp_path / run.id)


def test_rounding_that_reaches_the_goal_is_recommended_without_training(fresh, measured):
    search = Search(fresh, Goal(Fraction(1, 2)))
    results = search.results()
    assert [result.label for result in results] == ["bfloat16 of the run"]
    best = recommended(results, "bytes")
    assert best is results[0]
    assert best.served["changed"] is None  # there are no other outputs to compare with
    assert best.command.endswith("--format safetensors --quantization bfloat16")
    assert len(list(fresh.path.parent.glob("nmt-*"))) == 1
    again = len(measured)
    assert [result.label for result in search.results()] == ["bfloat16 of the run"]
    assert len(measured) == again  # measurements on record are not repeated


def test_only_the_header_of_a_file_may_exceed_the_goal(fresh, measured):
    reached = []
    for by, share in (("bytes", "0.2488"), ("bytes", "0.2487"), ("parameters", "0.999")):
        search = Search(fresh, Goal(Fraction(share), by))
        search.base = search._served(fresh, shrink.Format("safetensors"))
        reached.append(search._measured("rounding", "a quarter", [fresh], False, "int8").reached)
    assert reached == [True, False, False]


def test_structures_and_students_are_trained_beside_a_dense_control(fresh, measured, monkeypatch):
    monkeypatch.setattr(shrink, "STRUCTURES", (("low-rank", "block-circulant"),))
    monkeypatch.setattr(shrink, "RATES", (1e30, 0.1))  # training diverges at the first
    goal = Goal(Fraction(3, 5), by="parameters", steps=2, every=True)
    shown = []
    results = Search(fresh, goal, progress=shown.append).results()
    assert [result.label for result in shown] == [result.label for result in results]
    assert {result.way for result in results} == {"control", "structure", "student"}
    assert results[0].way == "control"
    for result in results[1:]:
        assert result.shares["parameters"] <= 0.6
        assert result.judgement is not None
        assert "max_steps: 2" in Run(result.runs[0]).config_path.read_text(encoding="utf-8")
    assert recommended(results, "parameters").way == "structure"
    trained = shrink.open_run(fresh)
    phm = trained.config.model_copy(update={"layer": trained.config.layer.model_copy(update={"structure": "phm"})})
    assert shrink._narrower(phm, trained.vocabulary.sizes, 10**9).layer.structure == "dense"
    of_two_seeds = replace(results[1], way="structure", runs=(Path("chose the rate"), Path("other seed")))
    assert [run.path.name for run in Search(fresh, goal)._counted(of_two_seeds)] == ["other seed"]


def test_an_interrupted_search_continues_to_the_same_result(run, measured, tmp_path, monkeypatch):
    monkeypatch.setattr(shrink, "STRUCTURES", (("low-rank",),))
    monkeypatch.setattr(shrink, "RATES", (0.1,))
    goal = Goal(Fraction(3, 5), by="parameters", steps=2)
    steps, step = [], TrainingModule.training_step

    def interrupted(*arguments):
        """Stop after one of two steps of the structure."""
        if len(steps) == 7:
            raise KeyboardInterrupt
        steps.append(1)
        return step(*arguments)

    weights = {}
    for name in ("whole", "halves"):
        shutil.copytree(run.path, tmp_path / name / run.id)
        search = Search(Run(tmp_path / name / run.id), goal)
        if name == "halves":
            with monkeypatch.context() as patched:
                patched.setattr(TrainingModule, "training_step", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    search.results()
        results = search.results()
        runs = sorted(search.run.path.parent.glob("nmt-*"))
        weights[name] = {
            path.name: torch.load(path / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"] for path in runs
        }
        chosen = [path.name for result in results for path in result.runs]
        weights[name]["chosen"] = {str(number): name for number, name in enumerate(chosen)}
    assert weights["whole"].keys() == weights["halves"].keys()
    assert len(weights["whole"]) == 4  # the run, the control, the structure, the choice
    assert weights["whole"].pop("chosen") == weights["halves"].pop("chosen")
    for name, state in weights["whole"].items():
        assert all(torch.equal(value, weights["halves"][name][key]) for key, value in state.items()), name


def test_the_command_prints_the_recommendation_and_writes_a_page(phmrun, fresh, measured):
    where = ("--runs-dir", str(fresh.path.parent))
    shown = phmrun("shrink", fresh.id, "--to", "50%", *where)
    assert shown.code == 0, shown.err
    assert "bfloat16 of the run reaches 50.0%" in shown.out
    assert "write it with: phmrun export" in shown.out
    page = fresh.path.parent / ".sweeps" / f"shrink-{fresh.id}" / "README.md"
    assert "bytes.svg" in page.read_text(encoding="utf-8")
    assert page.with_name("latency.svg").is_file()
    report = json.loads(phmrun("shrink", fresh.id, "--to", "1/2", "--json", *where).out)
    assert report["recommended"]["label"] == "bfloat16 of the run"
    candidate = fresh.path.with_name(f"{fresh.id[:-12]}{'c' * 12}")
    shutil.copytree(fresh.path, candidate)
    (candidate / "data.json").write_text(json.dumps({"fingerprints": {"compresses": fresh.id}}), encoding="utf-8")
    (candidate / "status.json").touch()  # it ended last
    for reference in ("latest", "nmt"):
        assert f"run {fresh.id} (done)" in phmrun("shrink", reference, "--to", "50%", *where).err
    refused = phmrun("shrink", fresh.id, "--to", "150%", *where)
    assert refused.code == 2
    assert "50%" in refused.err
