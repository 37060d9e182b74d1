"""The Python interface: what the command line does, with text for paths."""

import subprocess
import sys

import pytest
from tiny_experiments import write_agreement

import phmrun
from phmrun.errors import PhmrunError


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    directory = write_agreement(tmp_path_factory.mktemp("agreement"))
    sizes = {"model.width": 32, "model.feedforward": 48, "model.heads": 2}
    return {
        "layer": "phm",
        "n": 4,
        **{f"{split}_file": str(directory / f"{split}.tsv") for split in ("train", "dev", "test")},
        "max_steps": 4,
        "settings": {**sizes, "batch.size": 12, "training.validate_every": 2, "logging.wandb": "disabled"},
    }


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    return phmrun.train("sva", runs_dir=str(tmp_path_factory.mktemp("runs")), **settings)


def test_training_gives_a_run_that_reads_as_tables(run):
    assert run.state == "done"
    assert {row["score"] for row in run.scores()} >= {"test/accuracy", "validation/best"}
    assert [row["step"] for row in run.history() if "val/loss" in row] == [2, 4]
    shown = [row["val/accuracy"] for row in run.history() if "val/accuracy" in row]
    assert max(shown) == next(line["value"] for line in run.scores() if line["score"] == "validation/best") > 1
    (row,) = phmrun.runs(str(run.path.parent))
    assert (row["id"], row["task"], row["layer"]) == (run.id, "sva", "phm n=4")
    assert row["test/accuracy"] == next(line["value"] for line in run.scores() if line["score"] == "test/accuracy")


def test_names_that_are_imported_late_are_listed():
    assert {"train", "decide", "load_results", "open_run"} <= set(dir(phmrun))


def test_the_same_call_again_is_the_same_run(run, settings):
    assert phmrun.train("sva", runs_dir=run.path.parent, **settings).id == run.id


def test_distillation_needs_a_teacher():
    with pytest.raises(PhmrunError, match="no distillation"):
        phmrun.train("sva", settings={"distillation.weight": 0.9})


def test_settings_are_a_mapping():
    with pytest.raises(PhmrunError, match=r"settings=\['model.width=32'\] is no mapping"):
        phmrun.plan("sva", settings=["model.width=32"])


def test_a_run_of_another_task_is_not_extended(run):
    with pytest.raises(PhmrunError, match="the run is of the task sva, not nmt"):
        phmrun.train("nmt", extend=run.id, runs_dir=run.path.parent)


def test_a_plan_is_the_run_that_would_be(run, settings):
    plan = phmrun.plan("sva", **settings)
    assert plan.run_id == run.id
    assert plan.parameters["total"] == run.run.parameters()["total"]


def test_a_run_is_opened_evaluated_and_asked(run, monkeypatch):
    monkeypatch.chdir(run.path.parent.parent)
    again = phmrun.open_run(runs_dir=run.path.parent.name)
    monkeypatch.undo()
    assert again.scores() == run.scores()
    assert again.id == run.id
    assert "dev/accuracy" in again.evaluate("dev")
    assert "dev/accuracy" in again.evaluate(files=run.run.values["data"]["dev"])
    (answer,) = again.predict(["n1s w2"])
    assert answer.values["prediction"] == answer.split()[0]
    assert answer.split("\t")[0] in ("singular", "plural")
    for lines in ("n1s w2", ["n1s w2", 3]):
        with pytest.raises(PhmrunError, match="predict takes a list of texts, not"):
            again.predict(lines)


def test_importing_the_package_or_a_verdict_brings_no_torch():
    names = "phmrun.train, phmrun.decide, phmrun.cli.decide"
    code = f"import sys, phmrun, phmrun.experiments, phmrun.cli.decide; {names}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
