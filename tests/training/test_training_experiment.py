"""A whole experiment through the Python interface: what its run directory holds, and what the same call does again."""

import json
import logging
import os
import subprocess
import sys

import pytest
import torch
import yaml
from tiny_experiments import configured, everywhere, run_experiment, run_of, write_corpus

from phmrun.config import load_run_config
from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers import options_of
from phmrun.ledger import Run, State
from phmrun.training import experiment
from phmrun.training.experiment import dry_run, evaluate, predictor, train

LONGER = {
    "training": {
        "max_steps": 300,
        "validate_every": 100,
        "checkpoint_every": 100,
        "optimizer": {"lr": 0.01},
        "schedule": {"warmup": 20},
        "patience": 0,
    },
    "model": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
}


def learnable(corpus):
    """Lets the first training pairs be the test set, which so little training can learn by heart."""
    for language in ("aa", "bb"):
        lines = (corpus / f"train.{language}").read_text().splitlines(keepends=True)
        (corpus / f"test.{language}").write_text("".join(lines[:12]))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, prepared_corpora):
    """A run that has learnt something, with its W&B mirror on disk."""
    directory = tmp_path_factory.mktemp("finished")
    layers = {**everywhere("phm", n=2), "logging": {"wandb": "offline"}}
    config = configured("nmt", directory / "corpus", LONGER, layers)
    learnable(directory / "corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHMRUN_CACHE", str(prepared_corpora))
        patch.setenv("WANDB_MODE", "offline")
        logger = logging.getLogger("phmrun")
        level = logger.level
        logger.setLevel(logging.INFO)
        result = train(config, origin={"layer.n": "--n", "seed": "default"}, runs_dir=directory / "runs")
        logger.setLevel(level)
    return directory, config, result


def snapshot(run):
    """Every file of a run with its content and time of change."""
    return {
        str(path.relative_to(run.path)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(run.path.rglob("*"))
        if path.is_file()
    }


def test_the_directory_reads_as_a_document(finished):
    _, config, result = finished
    run = run_of(result)
    assert result.state is State.DONE
    assert run.path.name == run.id == result.run_id
    assert run.id.startswith("nmt-files-phm-1-")
    assert load_run_config(run.config_path, options_of=options_of) == config
    assert "n: 2  # --n" in run.config_path.read_text()
    assert "default" not in run.config_path.read_text()

    status = json.loads(run.status_path.read_text())
    assert (status["state"], status["reason"], status["step"]) == ("done", "the last step", 300)
    assert status["seconds"] > 0
    parameters = json.loads(run.parameters_path.read_text())
    assert parameters["total"] < parameters["dense_total"]
    assert parameters["data"]["splits"]["train"]["sentences"] == 150
    assert [path.name for path in run.vocabulary.iterdir()] == ["shared"]
    assert (run.path / "README.md").is_file()
    assert not (run.path / "lock").exists()


def test_checkpoints_hold_a_state_dict_and_open_safely(finished):
    run = run_of(finished[2])
    names = sorted(path.name for path in run.checkpoints.iterdir())
    assert names == ["best.ckpt", "last.ckpt", *(f"step-{step:09d}.ckpt" for step in (100, 200, 300))]
    parameters = json.loads(run.parameters_path.read_text())["total"]
    for name in names:
        checkpoint = torch.load(run.checkpoints / name, weights_only=True)
        weights = {id(tensor.untyped_storage()): tensor for tensor in checkpoint["state_dict"].values()}
        assert sum(tensor.numel() for tensor in weights.values()) >= parameters
        assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_the_history_has_losses_rates_and_validations(finished):
    rows = run_of(finished[2]).history.read()
    losses = [(row["step"], row["train/loss"]) for row in rows if "train/loss" in row]
    assert [step for step, _ in losses] == [50, 100, 150, 200, 250, 300]
    assert losses[-1][1] < losses[0][1]
    assert [row["step"] for row in rows if "val/loss" in row] == [100, 200, 300]
    peak, warmup = 0.01, 20
    assert rows[0]["train/lr"] == pytest.approx(peak * (warmup / 50) ** 0.5)


def test_the_log_tells_the_story(finished):
    text = run_of(finished[2]).log_path.read_text()
    assert "parameters (" in text
    assert "step 300 of 300" in text
    assert "validation at step 100: val/loss" in text
    assert "training ended at optimizer step 300: the last step" in text
    assert all(line[:4].isdigit() for line in text.splitlines())


def test_scores_carry_signatures(finished):
    run = run_of(finished[2])
    metrics = run.metrics()
    assert {"test/bleu", "test/chrf", "test/bleu-of-copy", "test/sentences_per_second", "validation/best"} <= set(
        metrics
    )
    bleu = metrics["test/bleu"]
    assert bleu["value"] > 5, "it has learnt something"
    for part in ("tok:13a", "case:mixed", "beam:2", "alpha:0.6", "limit:1x+4", "application:dense", "weights:average2"):
        assert part in bleu["signature"].split("|")
    assert bleu["n"] == 12
    assert metrics["test/bleu-of-copy"]["value"] == 0
    assert metrics["validation/best"]["value"] == min(
        row["val/loss"] for row in run.history.read() if "val/loss" in row
    )
    assert finished[2].metrics == {name: score for name, score in metrics.items() if name.startswith("test/")}


def test_bleu_equals_sacrebleus_own_command_line(finished):
    directory, _, result = finished
    run = run_of(result)
    predictions = run.predictions / "test.txt"
    assert len(predictions.read_text().splitlines()) == 12
    for metric, name in (("bleu", "test/bleu"), ("chrf", "test/chrf")):
        command = [sys.executable, "-m", "sacrebleu", str(directory / "corpus" / "test.bb"), "-i", str(predictions)]
        told = subprocess.run(
            [*command, "-m", metric, "-b", "-w", "12"], capture_output=True, text=True, check=True
        ).stdout
        assert float(told) == pytest.approx(run.metrics()[name]["value"], abs=1e-9)


def test_the_mirror_lies_in_the_run(finished):
    run = run_of(finished[2])
    records = list(run.wandb_dir.rglob("*.wandb"))
    assert len(records) == 1
    assert records[0].stat().st_size > 1000
    assert list(run.wandb_dir.rglob("*.table.json")), "the table of sample translations"


def test_without_a_mirror_nothing_is_left(tmp_path):
    config = configured("nmt", tmp_path / "corpus", {"logging": {"wandb": None}})
    run = run_of(run_experiment(config, tmp_path / "runs"))
    assert run.status.state is State.DONE
    assert not run.wandb_dir.exists()
    assert not list(run.path.rglob("*wandb*"))


def test_the_same_call_again_changes_nothing(finished, caplog):
    directory, config, result = finished
    run = run_of(result)
    before = snapshot(run)
    with caplog.at_level(logging.INFO, "phmrun"):
        again = run_experiment(config, directory / "runs")
    assert snapshot(run) == before
    assert again.state is State.DONE
    assert again.run_id == result.run_id
    assert again.metrics == run.metrics()
    assert "is done" in caplog.text


def test_another_place_of_the_same_text_is_the_same_run(finished, tmp_path):
    directory, config, result = finished
    moved = configured("nmt", tmp_path / "elsewhere", LONGER, everywhere("phm", n=2))
    learnable(tmp_path / "elsewhere")
    assert dry_run(moved).run_id == result.run_id
    (tmp_path / "elsewhere" / "train.aa").write_text(
        (directory / "corpus" / "train.aa").read_text().replace("w1 ", "w2 ")
    )
    assert dry_run(moved).run_id != result.run_id
    assert dry_run(config.model_copy(update={"seed": 2})).run_id != result.run_id


def test_a_dry_run_plans_and_writes_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = dry_run(configured("nmt", tmp_path / "corpus", everywhere("phm", n=4)))
    assert plan.data["splits"]["test" if "test" in plan.data["splits"] else "dev"]["sentences"] > 0
    assert plan.parameters["total"] < plan.parameters["dense_total"]
    assert plan.run_id.startswith("nmt-files-phm-1-")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_scoring_with_other_settings_goes_under_another_name(finished):
    run = run_of(finished[2])
    before = run.metrics()
    greedy = evaluate(run, decoding={"beam": 1}, checkpoint="last", device="cpu")
    assert {name.partition("/")[0] for name in greedy} == {"test-beam1-last"}
    assert "beam:1" in greedy["test-beam1-last/bleu"]["signature"]
    assert "weights:last@300" in greedy["test-beam1-last/bleu"]["signature"]
    assert (run.predictions / "test-beam1-last.txt").is_file()
    dev = evaluate(run, split="dev", average=3, decoding={"application": "factored"})
    assert {name.partition("/")[0] for name in dev} == {"dev-application-factored-average3"}
    after = run.metrics()
    assert {name: after[name] for name in before} == before
    assert after["dev-application-factored-average3/bleu"]["n"] == 24


def test_scoring_again_gives_the_same(finished):
    run = run_of(finished[2])
    for options in ({}, {"batch_size": 1}, {"batch_size": 5}):
        again = evaluate(run, **options)
        assert again["test/bleu"]["value"] == run.metrics()["test/bleu"]["value"]


def test_an_unknown_split(finished):
    with pytest.raises(PhmrunError, match="there is no split 'tset'") as caught:
        evaluate(run_of(finished[2]), split="tset")
    assert "Did you mean 'test'?" in str(caught.value)
    assert caught.value.code is ExitCode.USAGE


def test_prediction(finished):
    directory, _, result = finished
    lines = (directory / "corpus" / "test.aa").read_text().splitlines()
    translator = predictor(run_of(result))
    answers = [answer.text for answer in translator.predict(iter([*lines, "", "unheard of words"]))]
    assert answers[:12] == (run_of(result).predictions / "test.txt").read_text().splitlines()
    assert answers[12] == ""
    several = list(predictor(run_of(result), decoding={"beam": 4, "nbest": 3}, batch_size=1).predict(lines[:2]))
    assert all(len(set(each.text.split("\n"))) == len(each.values["prediction"]) == 3 for each in several)


def test_a_run_works_without_its_corpus(finished, tmp_path, monkeypatch):
    directory, _, result = finished
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path / "empty"))
    hidden = directory / "hidden"
    (directory / "corpus").rename(hidden)
    try:
        assert next(iter(predictor(run_of(result)).predict(["w1 w2"]))).text
        with pytest.raises(PhmrunError, match="does not exist") as caught:
            evaluate(run_of(result))
        assert caught.value.code is ExitCode.DATA
    finally:
        hidden.rename(directory / "corpus")


def test_restart_begins_anew(tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    first = run_of(run_experiment(config, tmp_path / "runs"))
    kept = [row["val/loss"] for row in first.history.read() if "val/loss" in row]
    (first.path / "note.txt").write_text("of the first attempt")
    again = run_of(run_experiment(config, tmp_path / "runs", restart=True))
    assert not (again.path / "note.txt").exists()
    assert [row["val/loss"] for row in again.history.read() if "val/loss" in row] == kept


def test_extending_a_run(tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    parent = run_experiment(config, tmp_path / "runs")
    before = snapshot(run_of(parent))
    longer = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 14}})
    child = run_experiment(longer, tmp_path / "runs", extend=parent.run_id)
    straight = run_experiment(longer, tmp_path / "straight")
    assert child.run_id not in (parent.run_id, straight.run_id)
    assert snapshot(run_of(parent)) == before
    assert [row["step"] for row in run_of(child).history.read() if "val/loss" in row] == [12, 14]
    one, other = (
        torch.load(result.run_dir / "checkpoints" / "last.ckpt")["state_dict"] for result in (child, straight)
    )
    assert all(torch.equal(one[name], other[name]) for name in other)
    same = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 9}})
    finished_already = run_experiment(same, tmp_path / "runs", extend=parent.run_id)
    assert finished_already.state is State.DONE
    assert "test/bleu" in finished_already.metrics


def test_an_unknown_parent(tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    with pytest.raises(PhmrunError, match="there is no run"):
        run_experiment(config, tmp_path / "runs", extend="nmt-nothing")
    assert not (tmp_path / "runs").exists()


def test_a_second_process_is_refused(tmp_path):
    config = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 2}})
    run = run_of(run_experiment(config, tmp_path / "runs"))
    run.set_state(State.INTERRUPTED)
    with run.lock(), pytest.raises(PhmrunError, match=str(os.getpid())) as caught:
        run_experiment(config, tmp_path / "runs")
    assert caught.value.code is ExitCode.USAGE


def test_a_loss_that_is_no_number_fails_the_run(tmp_path, monkeypatch):
    from phmrun.training.sequences import SequenceToSequence

    original, calls = SequenceToSequence.loss, []

    def broken(self, batch):
        loss = original(self, batch)
        calls.append(1)
        return loss._replace(nll=loss.nll * float("nan")) if len(calls) == 6 else loss

    monkeypatch.setattr(SequenceToSequence, "loss", broken)
    config = configured("nmt", tmp_path / "corpus", {"training": {"validate_every": 100}})
    with pytest.raises(PhmrunError, match="the training loss is nan at optimizer step 3") as caught:
        run_experiment(config, tmp_path / "runs")
    assert caught.value.code is ExitCode.TRAINING
    (path,) = (tmp_path / "runs").iterdir()
    status = Run(path).status
    assert (status.state, status.reason) == (State.FAILED, "the training loss is nan at optimizer step 3")
    assert not (path / "lock").exists()
    assert "the training loss is nan" in (path / "train.log").read_text()


def test_a_bug_fails_the_run_and_is_in_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "evaluate_run", lambda *_, **__: 1 / 0)
    config = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 2}})
    with pytest.raises(ZeroDivisionError):
        run_experiment(config, tmp_path / "runs")
    (path,) = (tmp_path / "runs").iterdir()
    assert Run(path).status.state is State.FAILED
    assert "ZeroDivisionError" in (path / "train.log").read_text()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ({"layer": {"structure": "phm", "n": 5}}, "valid n"),
        ({"embedding": {"structure": "phm", "n": 2}, "output": {"structure": "phm", "n": 4}}, "tied"),
        (
            {"data": {"vocabulary": {"multiple_of": 1, "size": 160}}, "embedding": {"structure": "phm", "n": 16}},
            "valid n",
        ),
    ],
)
def test_sizes_that_do_not_fit_leave_nothing_behind(override, words, tmp_path):
    config = configured("nmt", tmp_path / "corpus", override)
    with pytest.raises(PhmrunError, match=words) as caught:
        run_experiment(config, tmp_path / "runs")
    assert caught.value.code is ExitCode.USAGE
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda corpus: (corpus / "train.bb").unlink(), "does not exist"),
        (lambda corpus: (corpus / "train.bb").write_text("x1\n"), "train"),
        (lambda corpus: (corpus / "dev.aa").write_bytes(b"\xff\xfe\n" * 24), "UTF-8"),
    ],
)
def test_malformed_data_leave_nothing_behind(damage, words, tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    damage(tmp_path / "corpus")
    with pytest.raises(PhmrunError, match=words) as caught:
        run_experiment(config, tmp_path / "runs")
    assert caught.value.code is ExitCode.DATA
    assert not (tmp_path / "runs").exists()


def test_without_a_test_set_the_validation_set_is_scored(tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    for language in ("aa", "bb"):
        (tmp_path / "corpus" / f"test.{language}").unlink()
    result = run_experiment(config, tmp_path / "runs")
    assert result.state is State.DONE
    assert {name.partition("/")[0] for name in result.metrics} == {"dev"}
    assert len((run_of(result).predictions / "dev.txt").read_text().splitlines()) == 24


@pytest.mark.parametrize(
    ("training", "weights"),
    [
        ({"keep_last": 8, "average": 8}, "average5"),
        ({"keep_last": 1, "average": 1}, "average1"),
        ({"average": 0}, "best@10"),
        ({"average": 0, "validate_every": 3, "max_steps": 7}, "best@7"),
    ],
)
def test_which_weights_are_scored(training, weights, tmp_path):
    result = run_experiment(configured("nmt", tmp_path / "corpus", {"training": training}), tmp_path / "runs")
    assert f"weights:{weights}" in result.metrics["test/bleu"]["signature"].split("|")


@pytest.mark.parametrize("precision", ["bf16-mixed", "64"])
def test_other_precisions_train_and_resume(precision, tmp_path):
    training = {"training": {"precision": precision, "clip": 0.5, "patience": 0}}
    config = configured("nmt", tmp_path / "corpus", everywhere("phm", n=2), training)
    result = run_experiment(config, tmp_path / "runs")
    assert result.state is State.DONE
    weights = torch.load(result.run_dir / "checkpoints" / "last.ckpt")["state_dict"]
    kinds = {tensor.dtype for tensor in weights.values()}
    assert kinds == {torch.float64 if precision == "64" else torch.float32}


def test_a_users_own_layer_travels_with_the_run(tmp_path):
    from phmrun.registry import load_plugin

    plugin = tmp_path / "halves.py"
    plugin.write_text(PLUGIN)
    plugins = {plugin: load_plugin(plugin)}
    config = configured("nmt", tmp_path / "corpus", {"layer": {"structure": "test-plugin-scaled", "scale": 0.5}})
    result = run_experiment(config, tmp_path / "runs", plugins=plugins)
    assert (result.run_dir / "plugins" / "halves.py").read_text() == PLUGIN
    assert yaml.safe_load((result.run_dir / "config.yaml").read_text())["layer"]["scale"] == 0.5
    assert next(iter(predictor(run_of(result)).predict(["w1 w2"]))).text is not None
    assert dry_run(config, plugins={plugin: "another sum"}).run_id != result.run_id


PLUGIN = '''"""A layer of the user's own."""

from typing import Annotated

import torch
from torch import nn

from phmrun.layers import Structure, register


@register("test-plugin-scaled")
class Scaled(Structure):
    """A dense matrix times a constant."""

    def __init__(self, out_features, in_features, *, scale: Annotated[float, "The constant."] = 1.0):
        super().__init__(out_features, in_features, scale=scale)
        self.scale = scale
        self.matrix = nn.Parameter(torch.empty(out_features, in_features))

    @classmethod
    def count(cls, out_features, in_features, **options):
        return out_features * in_features

    def reset_parameters(self, std):
        nn.init.normal_(self.matrix, std=std / self.scale)

    def materialize(self):
        return self.scale * self.matrix
'''


def test_the_corpus_of_these_tests_is_what_it_says(tmp_path):
    one, other = write_corpus(tmp_path / "one"), write_corpus(tmp_path / "other")
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes()
