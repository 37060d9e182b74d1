"""A finished run: what its directory holds, how it is scored again and used, what the same call does again."""

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
from tiny_experiments import configured, everywhere, run_of, snapshot

from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.experiment import train
from phmrun.engine.trained_model import open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State

STEPS = {"max_steps": 300, "validate_every": 100, "checkpoint_every": 100, "patience": 0}
LONGER = {
    "training": {**STEPS, "optimizer": {"lr": 0.01}, "schedule": {"warmup": 20}},
    "model": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
}


def learnable(corpus):
    """Lets the first training pairs be the test set, which so little training can learn by heart."""
    for language in ("aa", "bb"):
        lines = (corpus / f"train.{language}").read_text().splitlines(keepends=True)
        (corpus / f"test.{language}").write_text("".join(lines[:12]))


SAID = {"layer.n": "--n", "seed": "default"}
"""What somebody gave."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has learnt something, with its W&B mirror on disk."""
    directory = tmp_path_factory.mktemp("finished")
    layers = {**everywhere("phm", n=2), "logging": {"wandb": "offline"}}
    config = configured("nmt", directory / "corpus", LONGER, layers)
    learnable(directory / "corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        logger = logging.getLogger("phmrun")
        level = logger.level
        logger.setLevel(logging.INFO)
        result = train(config, origin=SAID, runs_dir=directory / "runs")
        logger.setLevel(level)
    return directory, config, result


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
    rows = run.history.read()
    assert metrics["train/loss"]["value"] == [row["train/loss"] for row in rows if "train/loss" in row][-1]
    best = metrics["validation/best"]["step"]
    assert [metrics["validation/loss"]["value"]] == [
        r["val/loss"] for r in rows if r["step"] == best and "val/loss" in r
    ]
    assert finished[2].metrics == {name: score for name, score in metrics.items() if name.startswith("test/")}


def test_the_same_call_again_changes_nothing(finished, caplog):
    directory, config, result = finished
    run = run_of(result)
    before = snapshot(run)
    with caplog.at_level(logging.INFO, "phmrun"):
        again = train(config, origin=SAID, runs_dir=directory / "runs")
    assert snapshot(run) == before
    assert again.state is State.DONE
    assert again.run_id == result.run_id
    assert again.metrics == run.metrics()
    assert "is done" in caplog.text


def test_a_damaged_checkpoint_of_the_run_is_refused_by_any_path(finished, tmp_path, monkeypatch):
    shutil.copytree(run_of(finished[2]).path, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    last = Path("run/checkpoints/last.ckpt")
    last.write_bytes(last.read_bytes() + b"x")
    for path in (last, last.absolute()):
        with pytest.raises(PhmrunError, match="checksum"):
            evaluate_run(open_run(Run(Path("run"))), checkpoint=str(path))


def test_scoring_with_other_settings_goes_under_another_name(finished, tmp_path):
    run = run_of(finished[2])
    before = run.metrics()
    greedy = evaluate_run(open_run(run), decoding={"beam": 1, "sentence_bleu": True}, checkpoint="last", device="cpu")
    assert {name.partition("/")[0] for name in greedy} == {"test-beam1-last"}
    assert "beam:1" in greedy["test-beam1-last/bleu"]["signature"]
    assert "weights:last@300" in greedy["test-beam1-last/bleu"]["signature"]
    assert (run.predictions / "test-beam1-last.txt").is_file()
    dev = evaluate_run(open_run(run), split="dev", average=3, decoding={"application": "factored"})
    assert {name.partition("/")[0] for name in dev} == {"dev-application-factored-average3"}
    foreign = shutil.copy(run.checkpoints / "last.ckpt", tmp_path)
    other = evaluate_run(open_run(run), decoding={"beam": 1}, checkpoint=str(foreign))
    assert {name.partition("/")[0].rpartition("-")[0] for name in other} == {"test-beam1-last"}
    with pytest.raises(PhmrunError, match="exclude each other"):
        evaluate_run(open_run(run), checkpoint="best", average=3)
    after = run.metrics()
    assert {name: after[name] for name in before} == before
    assert after["dev-application-factored-average3/bleu"]["n"] == 24


def test_a_finished_run_translates_any_line(finished):
    directory, _, result = finished
    lines = (directory / "corpus" / "test.aa").read_text().splitlines()
    translator = open_run(run_of(result)).predictor()
    answers = [answer.text for answer in translator.predict(iter([*lines, "", "unheard of words"]))]
    assert answers[:12] == (run_of(result).predictions / "test.txt").read_text().splitlines()
    assert answers[12] == ""
    several = list(
        open_run(run_of(result)).predictor(decoding={"beam": 4, "nbest": 3}, batch_size=1).predict(lines[:2])
    )
    assert all(len(set(item.text.split("\n"))) == len(item.values["prediction"]) == 3 for item in several)


def test_a_run_works_without_its_corpus(finished, tmp_path, monkeypatch):
    directory, _, result = finished
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path / "empty"))
    hidden = directory / "hidden"
    (directory / "corpus").rename(hidden)
    try:
        assert next(iter(open_run(run_of(result)).predictor().predict(["w1 w2"]))).text
        with pytest.raises(PhmrunError, match="does not exist") as caught:
            evaluate_run(open_run(run_of(result)))
        assert caught.value.code is ExitCode.DATA
    finally:
        hidden.rename(directory / "corpus")


def test_a_run_is_continued_by_its_own_experiment_only(finished):
    directory, config, result = finished
    run = run_of(result)
    before = run.config_path.read_bytes()
    assert train(config, origin={}, runs_dir=directory / "runs", continued=run).run_id == run.id
    assert run.config_path.read_bytes() == before
    other = config.model_copy(update={"seed": config.seed + 1})
    with pytest.raises(PhmrunError, match="this is another experiment: it differs in seed"):
        train(other, origin={}, runs_dir=directory / "runs", continued=run)
