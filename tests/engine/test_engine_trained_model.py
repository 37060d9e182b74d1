"""Opening a trained run: which weights, which device, which name a score gets."""

import shutil

import pytest
import torch

from phmrun.engine.trained_model import open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State


@pytest.fixture
def run(shared_run):
    return shared_run("nmt")


def weights_of(path):
    return torch.load(path, weights_only=True)["state_dict"]


def holds(trained, weights):
    ours = trained.module.state_dict()
    return ours.keys() == weights.keys() and all(torch.equal(ours[name], weights[name]) for name in ours)


@pytest.mark.parametrize(("asked", "label"), [("best", "best@10"), ("last", "last@10")])
def test_a_checkpoint_by_name(run, asked, label):
    trained = open_run(run)
    assert trained.load(asked) == label
    assert holds(trained, weights_of(run.checkpoints / f"{asked}.ckpt"))


@pytest.mark.parametrize(("average", "count"), [(None, 2), (3, 3), (1, 1)])
def test_average_is_the_mean_of_the_last_checkpoints(run, average, count):
    trained = open_run(run)
    assert trained.load(average=average) == f"average{count}"
    kept = [weights_of(run.checkpoints / f"step-{step:09d}.ckpt") for step in (6, 8, 10)[-count:]]
    for name, tensor in trained.module.state_dict().items():
        torch.testing.assert_close(tensor, torch.stack([weights[name] for weights in kept]).mean(0))


def test_a_mistyped_device_and_a_missing_and_a_foreign_checkpoint(run, tmp_path):
    trained = open_run(run)
    for device in ("cdua", "cpu:x", "auto:0", "meta"):
        with pytest.raises(PhmrunError, match=f"there is no device '{device}'"):
            trained.predictor(device=device)
    with pytest.raises(PhmrunError, match="no such checkpoint") as caught:
        trained.load(str(tmp_path / "none.ckpt"))
    assert (caught.value.code, "--checkpoint last" in str(caught.value.hint)) == (ExitCode.DATA, True)
    torch.save({"state_dict": {"network.other": torch.zeros(1)}, "global_step": 1}, tmp_path / "foreign.ckpt")
    with pytest.raises(PhmrunError, match="another network") as caught:
        trained.load(str(tmp_path / "foreign.ckpt"))
    assert caught.value.code is ExitCode.DATA


@pytest.mark.parametrize(
    ("state", "hint"),
    [(State.INTERRUPTED, "The command that trained it"), (State.DONE, "`phmrun runs reproduce ")],
)
def test_run_without_checkpoints_says_how_to_get_some(run, tmp_path, state, hint):
    shutil.copytree(run.path, copy := tmp_path / "my runs" / run.path.name)
    shutil.rmtree(copy / "checkpoints")
    Run(copy).set_state(state)
    with pytest.raises(PhmrunError, match=f"{run.id} has none") as caught:
        open_run(Run(copy)).load()
    assert caught.value.hint.startswith(hint)
