"""``environment.json``, and runs that are trained anew."""

from dataclasses import replace

import pytest
import torch
from tiny_experiments import configured, run_experiment, run_of

from phmrun.config.identity import LAYER_VERSIONS
from phmrun.engine import experiment
from phmrun.engine.checkpoints import LAST
from phmrun.engine.reproduction import OTHER_NUMBERS, compare, reproduce
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import State
from phmrun.ledger.environment import differences

SHORT = {"training": {"max_steps": 4, "validate_every": 2, "checkpoint_every": 2}}


@pytest.mark.parametrize("task", ["nmt", "lm"])
def test_a_run_is_reproduced_bit_for_bit(task, shared_run, tmp_path):
    run = shared_run(task)
    actual = reproduce(run, tmp_path / "again")
    assert actual.identical
    assert actual.checkpoints == ("last.ckpt", "best.ckpt")
    assert actual.until == 10
    assert f"test/{ {'nmt': 'bleu', 'lm': 'perplexity'}[task] }" in actual.compared
    assert actual.again.path == tmp_path / "again" / run.id
    (entry,) = run.environment()
    assert entry["packages"]["torch"] == torch.__version__.split("+")[0] or entry["packages"]["torch"]
    assert (entry["state"], entry["first_step"], entry["last_step"]) == ("done", 0, 10)
    assert entry["threads"] == torch.get_num_threads()
    assert entry["cpu_seconds"] > 0
    assert entry["peak_memory_bytes"] > 2**20
    assert entry["ended"] >= entry["started"]


def _stop(*_, **__):
    raise KeyboardInterrupt


def test_other_weights_are_told_and_explained_by_what_is_on_record(tmp_path, monkeypatch):
    config = configured("sva", tmp_path / "corpus", SHORT)
    with monkeypatch.context() as patched:  # after two steps the process is stopped, and goes on with other threads
        patched.setattr(experiment, "tell_validation", lambda row: _stop() if "val/loss" in row else None)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(config, tmp_path / "runs")
    threads = torch.get_num_threads()
    other = config.model_copy(update={"hardware": config.hardware.model_copy(update={"threads": threads + 1})})
    try:
        run = run_of(run_experiment(other, tmp_path / "runs"))
    finally:
        torch.set_num_threads(threads)
    first, two = run.environment()
    assert (first["state"], first["threads"], two["threads"]) == ("interrupted", threads, threads + 1)
    assert f"threads: {threads}, then {threads + 1}" in differences(first, two)
    checkpoint = torch.load(run.checkpoints / LAST, weights_only=False)
    weight = next(item for item in checkpoint["state_dict"].values() if item.is_floating_point())
    weight.view(-1)[0] += 0.5
    torch.save(checkpoint, run.checkpoints / LAST)
    metrics = run.metrics()
    metrics["test/accuracy"]["value"] -= 1.0
    run.add_metrics({"test/accuracy": metrics["test/accuracy"]})
    again = tmp_path / "again"
    actual = reproduce(run, again)
    torch.set_num_threads(threads)
    assert not actual.identical
    assert "last.ckpt" in actual.weights
    assert "test/accuracy" in {item.name for item in actual.scores}
    assert any(f"threads: {threads + 1}, then {threads}" in line for line in actual.explanations)
    assert compare(actual.again, actual.again).identical
    assert compare(actual.again, actual.again).verdict == "identical"
    assert actual.verdict == "different"
    explained = ("random_numbers: None, then 2", *actual.explanations)
    assert replace(actual, explanations=explained).verdict == OTHER_NUMBERS
    assert two["arithmetic"]["instruction_set"]


def test_a_run_with_other_data_or_mathematics_is_not_reproduced(tmp_path, monkeypatch):
    config = configured("sva", tmp_path / "corpus", SHORT)
    run = run_of(run_experiment(config, tmp_path / "runs"))
    with pytest.raises(PhmrunError, match="take the place"):
        reproduce(run, tmp_path / "runs")
    train = tmp_path / "corpus" / "train.tsv"
    train.write_text(train.read_text() + train.read_text())
    with pytest.raises(PhmrunError, match="no longer the same experiment: changed are train") as caught:
        reproduce(run, tmp_path / "again")
    assert caught.value.code is ExitCode.DATA
    assert not (tmp_path / "again").exists()
    train.write_text(train.read_text()[: len(train.read_text()) // 2])
    monkeypatch.setitem(LAYER_VERSIONS, "dense", 2)
    with pytest.raises(PhmrunError, match="changed are dense, version 1, now 2"):
        reproduce(run, tmp_path / "again")
    (run.path / "metrics.json").write_text("{}")
    with pytest.raises(PhmrunError, match=r"metrics\.json"):  # before the mathematics, and so before the training
        reproduce(run, tmp_path / "again")
    run.set_state(State.INTERRUPTED)
    with pytest.raises(PhmrunError, match="nothing to reproduce yet"):
        reproduce(run, tmp_path / "again")
