"""Checkpoints: whole or not there, the right ones kept, averaged by arithmetic, safe to open."""

import itertools
import os
import pickle
import types
import zipfile

import pytest
import torch
from toy import ToyModule, train_toy

from phmrun.engine import callbacks, checkpoints
from phmrun.engine.checkpoints import (
    averaged_weights,
    load_checkpoint,
    step_checkpoints,
)
from phmrun.errors import ExitCode, PhmrunError


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def save(path, **weights):
    torch.save(
        {"state_dict": {name: torch.as_tensor(value) for name, value in weights.items()}, "global_step": 1}, path
    )
    return path


@pytest.mark.parametrize(("keep", "steps"), [(1, []), (2, [6, 7]), (3, [4, 6, 7]), (9, [2, 4, 6, 7])])
def test_the_last_ones_are_kept(keep, steps, tmp_path):
    train_toy(tmp_path, max_steps=7, checkpoint_every=2, keep_last=keep)
    assert names(tmp_path) == sorted(["best.ckpt", "last.ckpt", *(f"step-{step:09d}.ckpt" for step in steps)])
    for path, step in zip(step_checkpoints(tmp_path), steps, strict=True):
        assert load_checkpoint(path)["global_step"] == step
    if steps:
        kept = load_checkpoint(step_checkpoints(tmp_path)[-1])["state_dict"]
        last = load_checkpoint(tmp_path / "last.ckpt")["state_dict"]
        assert kept.keys() == last.keys()
        assert all(torch.equal(kept[name], last[name]) for name in last)


def test_a_failing_disk_leaves_the_old_checkpoint_and_no_part_of_the_new(tmp_path, monkeypatch):
    train_toy(tmp_path, max_steps=2, keep_last=1)
    before = (tmp_path / "last.ckpt").read_bytes()
    original = torch.save

    def full(content, file):
        original(content, file)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints.torch, "save", full)
    with pytest.raises(PhmrunError, match=r"the disk is full \(.* MB are needed, .* MB are free\)") as caught:
        train_toy(tmp_path, max_steps=6, keep_last=1)
    assert caught.value.code is ExitCode.TRAINING
    assert caught.value.where == str(tmp_path / "last.ckpt")
    assert "same command" in caught.value.hint
    assert (tmp_path / "last.ckpt").read_bytes() == before
    assert names(tmp_path) == ["best.ckpt", "last.ckpt"]


def test_the_kept_weights_do_not_depend_on_stops(tmp_path, monkeypatch):
    options = {"max_steps": 8, "checkpoint_every": 2, "keep_last": 3}
    monkeypatch.setattr(callbacks, "time", types.SimpleNamespace(monotonic=itertools.count().__next__))
    stopped = train_toy(tmp_path / "stopped", max_time="00:00:05", **options)
    assert 0 < stopped.fitted.step < 8
    assert not stopped.fitted.complete
    monkeypatch.undo()
    kept = [path.name for path in step_checkpoints(tmp_path / "stopped")]
    assert kept == [f"step-{step:09d}.ckpt" for step in range(2, stopped.fitted.step + 1, 2)]
    train_toy(tmp_path / "stopped", **options)
    train_toy(tmp_path / "straight", **options)
    for path in step_checkpoints(tmp_path / "straight"):
        other = load_checkpoint(tmp_path / "stopped" / path.name)
        assert torch.equal(load_checkpoint(path)["state_dict"]["network.weight"], other["state_dict"]["network.weight"])
    assert names(tmp_path / "stopped") == names(tmp_path / "straight")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_one_flipped_bit_in_a_tensor_is_noticed(share, tmp_path):
    path = tmp_path / "last.ckpt"
    save(path, w=torch.rand(1000))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        (entry,) = (entry for entry in archive.infolist() if entry.filename.endswith("/data/0"))
    begin = bytes(content).index(load_checkpoint(path)["state_dict"]["w"].numpy().tobytes())
    content[begin + int(share * entry.file_size)] ^= 1
    path.write_bytes(content)
    with pytest.raises(PhmrunError, match="checksum of data/0") as caught:
        load_checkpoint(path)
    assert caught.value.code is ExitCode.DATA


def test_the_average_is_the_mean_and_integers_are_the_last(tmp_path):
    paths = [save(tmp_path / f"{i}.ckpt", w=[float(i), 1.0], steps=i) for i in (1, 2, 6)]
    mean = averaged_weights(paths)
    assert torch.equal(mean["w"], torch.tensor([3.0, 1.0]))
    assert mean["w"].dtype == torch.float32
    assert torch.equal(mean["steps"], torch.tensor(6))
    assert mean["steps"].dtype == torch.int64


class Trap:
    """Runs code when it is unpickled the unsafe way."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_code_in_a_checkpoint_is_refused_and_not_run(how, tmp_path):
    path, proof = tmp_path / "last.ckpt", tmp_path / "proof"
    if how == "torch":
        torch.save({"state_dict": Trap(proof)}, path)
    else:
        path.write_bytes(pickle.dumps({"state_dict": Trap(proof)}))
    with pytest.raises(PhmrunError) as caught:
        load_checkpoint(path)
    assert caught.value.code is ExitCode.DATA
    assert caught.value.where == str(path)
    assert not proof.exists()
    assert "weights_only" not in str(caught.value), "no advice to switch the protection off"


@pytest.mark.parametrize("damage", [lambda content: content[: len(content) // 2], lambda _: b"", lambda _: b"x" * 99])
def test_a_damaged_checkpoint_is_an_error_of_the_data(damage, tmp_path):
    train_toy(tmp_path, max_steps=2)
    path = tmp_path / "last.ckpt"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(PhmrunError) as caught:
        train_toy(tmp_path, max_steps=4)
    assert caught.value.code is ExitCode.DATA
    assert caught.value.where == str(path)
    assert "\n" not in caught.value.what


def test_another_runs_checkpoints_become_this_runs(tmp_path):
    parent, child = tmp_path / "parent", tmp_path / "child"
    train_toy(parent, ToyModule(validations=[1.0]), max_steps=6, validate_every=2, keep_last=2)
    toy = train_toy(child, ToyModule(validations=[2.0]), start=parent, max_steps=10, validate_every=2, keep_last=3)
    assert toy.resumed == [6]
    assert toy.module.seen == [6, 7, 8, 9]
    # The parent's best weights stay the best, and its last ones are there for the mean.
    assert (toy.fitted.best, toy.fitted.best_step) == (1.0, 2)
    assert load_checkpoint(child / "best.ckpt")["global_step"] == 2
    assert [path.name for path in step_checkpoints(child)] == [f"step-{step:09d}.ckpt" for step in (6, 8, 10)]
    straight = tmp_path / "straight"
    train_toy(straight, max_steps=10, keep_last=3)
    first, other = (load_checkpoint(path / "last.ckpt")["state_dict"] for path in (child, straight))
    assert torch.equal(first["network.weight"], other["network.weight"])


def test_a_started_child_goes_on_from_its_own(tmp_path):
    parent, child = tmp_path / "parent", tmp_path / "child"
    train_toy(parent, max_steps=4)
    with pytest.raises(RuntimeError, match="killed"):
        train_toy(child, ToyModule({7: RuntimeError("killed")}), start=parent, max_steps=10)
    again = train_toy(child, start=parent, max_steps=10)
    assert again.resumed == [6]


def test_training_does_not_go_on_from_weights_alone_or_of_another_network(tmp_path):
    train_toy(tmp_path, max_steps=4, keep_last=2)
    checkpoint = load_checkpoint(tmp_path / "last.ckpt")
    step_checkpoints(tmp_path)[-1].replace(tmp_path / "last.ckpt")
    with pytest.raises(PhmrunError, match="it has weights alone") as caught:
        train_toy(tmp_path, max_steps=6)
    assert caught.value.code is ExitCode.DATA
    checkpoint["state_dict"]["network.weight"] = torch.zeros(2, 2)
    torch.save(checkpoint, tmp_path / "last.ckpt")
    with pytest.raises(PhmrunError, match="another network") as caught:
        train_toy(tmp_path, max_steps=6)
    assert caught.value.code is ExitCode.DATA
