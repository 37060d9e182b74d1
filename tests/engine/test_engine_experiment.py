"""A whole experiment through the Python interface: plans, limits, failures, restarts and extensions."""

import os

import pytest
import torch
import yaml
from tiny_experiments import configured, everywhere, run_experiment, run_of, snapshot, write_corpus

from phmrun.engine.data import contents
from phmrun.engine.experiment import dry_run
from phmrun.engine.trained_model import open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State


def test_a_dry_run_plans_and_writes_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = dry_run(configured("nmt", tmp_path / "corpus", everywhere("phm", n=4)))
    assert plan.data["splits"]["test" if "test" in plan.data["splits"] else "dev"]["sentences"] > 0
    assert plan.parameters["total"] < plan.parameters["dense_total"]
    assert plan.run_id.startswith("nmt-files-phm-embedding-phm-output-phm-1-")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_a_split_or_a_setting_that_is_not_there_is_refused_before_anything_is_made(tmp_path):
    muon = {"training": {"optimizer": {"name": "muon", "rates": "structure"}}}
    for values, what in (({"score_on": ["dev", "dve"]}, "the data have no split 'dve'"), (muon, "one learning rate")):
        config = configured("nmt", tmp_path / "corpus", values)
        for begin in (dry_run, lambda config: run_experiment(config, tmp_path / "runs")):
            with pytest.raises(PhmrunError, match=what):
                begin(config)
    assert not (tmp_path / "runs").exists()


def test_training_of_no_steps_is_refused(tmp_path):
    with pytest.raises(PhmrunError, match="max_steps is 0"):
        run_experiment(configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 0}}), tmp_path / "runs")


def test_restart_begins_anew(tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    first = run_of(run_experiment(config, tmp_path / "runs"))
    kept = [row["val/loss"] for row in first.history.read() if "val/loss" in row]
    (first.path / "note.txt").write_text("of the first attempt")

    def refuse(run):
        raise PhmrunError(f"not {run.id}")

    with pytest.raises(PhmrunError, match=f"not {first.id}"):
        run_experiment(config, tmp_path / "runs", restart=refuse)
    assert (first.path / "note.txt").exists()
    asked = []
    first.status_path.unlink()
    with pytest.raises(PhmrunError, match=r"status\.json is missing"):
        run_experiment(config, tmp_path / "runs")
    again = run_of(run_experiment(config, tmp_path / "runs", restart=asked.append))
    assert [run.id for run in asked] == [first.id]
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
    first, other = (
        torch.load(result.run_dir / "checkpoints" / "last.ckpt")["state_dict"] for result in (child, straight)
    )
    assert all(torch.equal(first[name], other[name]) for name in other)
    same = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 9}})
    with pytest.raises(PhmrunError, match="10 optimizer steps already"):
        run_experiment(same, tmp_path / "runs", extend=parent.run_id)
    thinner = configured("nmt", tmp_path / "corpus", {"layer": {"structure": "low-rank"}})
    with pytest.raises(PhmrunError, match="has another network, whose weights do not fit"):
        run_experiment(thinner, tmp_path / "runs", extend=parent.run_id)
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_run_is_extended_with_other_data(tmp_path, caplog):
    parent = run_of(run_experiment(configured("nmt", tmp_path / "corpus"), tmp_path / "runs"))
    parent.set_state(State.DONE, step=0)  # as of a compressed run
    other = write_corpus(tmp_path / "other", seed=1)
    changed = configured(
        "nmt",
        tmp_path / "corpus",
        {"data": {"prefix": f"{other}/"}, "training": {"max_steps": 1, "optimizer": {"lr": 1e-30}}},
    )
    with caplog.at_level("INFO"):
        child = run_of(run_experiment(changed, tmp_path / "runs", extend=parent.id))
    assert "begins with the trained weights" in caplog.text
    before, after = (open_run(run) for run in (parent, child))
    assert contents(before.vocabulary) == contents(after.vocabulary)
    assert (before.load(), after.load()) == ("average2", "average1")
    weights = after.module.state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in before.module.state_dict().items())


def test_patience_begins_anew_for_an_extension(tmp_path):
    short = configured(
        "nmt", tmp_path / "corpus", {"training": {"patience": 1, "validate_every": 1, "optimizer": {"lr": 1e-30}}}
    )
    parent = run_of(run_experiment(short, tmp_path / "runs"))
    assert parent.status.step < short.training.max_steps
    longer = short.model_copy(update={"training": short.training.model_copy(update={"max_steps": 20})})
    assert run_of(run_experiment(longer, tmp_path / "runs", extend=parent.id)).status.step > parent.status.step


def test_a_second_process_is_refused(tmp_path):
    config = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 2}})
    run = run_of(run_experiment(config, tmp_path / "runs"))
    run.set_state(State.INTERRUPTED)
    with run.lock(), pytest.raises(PhmrunError, match=str(os.getpid())) as caught:
        run_experiment(config, tmp_path / "runs")
    assert caught.value.code is ExitCode.USAGE


def test_a_loss_that_is_no_number_fails_the_run(tmp_path, monkeypatch):
    from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule

    original, calls = SequenceToSequenceModule.loss, []

    def broken(self, batch):
        loss = original(self, batch)
        calls.append(1)
        return loss._replace(nll=loss.nll * float("nan")) if len(calls) == 6 else loss

    monkeypatch.setattr(SequenceToSequenceModule, "loss", broken)
    config = configured("nmt", tmp_path / "corpus", {"training": {"validate_every": 100}})
    with pytest.raises(PhmrunError, match="the training loss is nan at optimizer step 3") as caught:
        run_experiment(config, tmp_path / "runs")
    assert caught.value.code is ExitCode.TRAINING
    (path,) = (tmp_path / "runs").iterdir()
    status = Run(path).status
    assert (status.diverged, status.reason) == (True, "the training loss is nan at optimizer step 3")
    assert not (path / "lock").exists()
    assert "the training loss is nan" in (path / "train.log").read_text()


@pytest.mark.parametrize(
    ("where", "state", "reason"),
    [
        ("phmrun.engine.fit.fit", State.FAILED, "ZeroDivisionError: division by zero"),
        ("phmrun.engine.experiment.build_module", State.FAILED, "ZeroDivisionError: division by zero"),
        (
            "phmrun.engine.experiment.evaluate_run",
            State.INTERRUPTED,
            "trained, but not scored: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_a_bug_fails_the_run_and_is_in_its_log(where, state, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(where, lambda *_, **__: 1 / 0)
    config = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 2}})
    with pytest.raises(ZeroDivisionError):
        run_experiment(config, tmp_path / "runs")
    (path,) = (tmp_path / "runs").iterdir()
    assert (Run(path).status.state, Run(path).status.reason) == (state, reason)
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


def test_malformed_data_leave_nothing_behind(tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    (tmp_path / "corpus" / "train.bb").write_text("x1\n")
    with pytest.raises(PhmrunError, match="train") as caught:
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
def test_other_precisions_train_and_resume(precision, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("phmrun.engine.fit.has_bf16", lambda: False)
    training = {"training": {"precision": precision, "clip": 0.5, "patience": 0}}
    config = configured("nmt", tmp_path / "corpus", everywhere("phm", n=2), training)
    result = run_experiment(config, tmp_path / "runs")
    assert result.state is State.DONE
    weights = torch.load(result.run_dir / "checkpoints" / "last.ckpt")["state_dict"]
    kinds = {tensor.dtype for tensor in weights.values()}
    assert kinds == {torch.float64 if precision == "64" else torch.float32}
    assert ("no 16-bit arithmetic" in caplog.text) == (precision == "bf16-mixed")


def test_a_users_own_layer_travels_with_the_run(tmp_path):
    from phmrun.registry import load_plugin

    plugin = tmp_path / "halves.py"
    plugin.write_bytes(PLUGIN.replace("\n", "\r\n").encode())
    plugins = {plugin: load_plugin(plugin)}
    config = configured("nmt", tmp_path / "corpus", {"layer": {"structure": "test-plugin-scaled", "scale": 0.5}})
    result = run_experiment(config, tmp_path / "runs", plugins=plugins)
    assert (result.run_dir / "plugins" / "halves.py").read_bytes() == plugin.read_bytes()
    assert yaml.safe_load((result.run_dir / "config.yaml").read_text())["layer"]["scale"] == 0.5
    assert next(iter(open_run(run_of(result)).predictor().predict(["w1 w2"]))).text is not None
    assert dry_run(config, plugins={plugin: "another sum"}).run_id != result.run_id


PLUGIN = '''"""A layer of the user's own."""

from typing import Annotated

import torch
from torch import nn

from phmrun.layers import Structure, register


@register("test-plugin-scaled")
class Scaled(Structure):
    """A dense matrix times a constant."""

    formula = "W = scale · M"
    count_formula = "k·d"
    constraint = "none"
    source = "a test"

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


@pytest.mark.parametrize("hardware", [{"strategy": "foo"}, {"accelerator": "tpu"}, {"accelerator": "mps"}, {}])
def test_hardware_that_is_not_there_is_refused_before_a_run_begins(tmp_path, hardware):
    precision = "32" if hardware else "16-mixed"  # of which Lightning makes bf16-mixed on a CPU
    config = configured("sva", tmp_path / "corpus", {"hardware": hardware, "training": {"precision": precision}})
    with pytest.raises(PhmrunError, match=r"cannot be used here|needs a GPU") as caught:
        run_experiment(config, tmp_path / "runs")
    assert caught.value.code == 2
    assert not (tmp_path / "runs").exists()
