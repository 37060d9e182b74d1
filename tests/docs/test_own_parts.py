"""The plug-ins of the page on own parts: killed and resumed bit for bit, and each in a sweep with a verdict."""

import os
import re
import signal
import sys
import traceback
from pathlib import Path

import pytest
import torch
from forks import load

from phmrun.cli.app import main
from phmrun.ledger import Run, State
from phmrun.ledger.listing import list_runs

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "own-parts.md"
BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SMALL = {"training.validate_every": 2, "training.checkpoint_every": 2, "model.width": 16}
USES = {
    "my_network": ("sva", {"model.network": "bag-of-words"}),
    "my_training": ("sva", {"training.optimizer.name": "nesterov", "training.schedule.name": "halving"}),
}
"""Task and settings that use the part of a plug-in of the page."""
STEPS, KILLED = 6, 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of the page, and the built-in corpus in place of four sentences where they are few."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHMRUN_DATA", "data")
    for name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def train(plugin, runs_dir, kill_at=0):
    """Train in a process of its own, which kills itself before a step; returns its exit code, minus a signal."""
    task, use = USES[plugin]
    settings = {"training.max_steps": STEPS, **SMALL, **use}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    load()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        _die_before(kill_at)
        main(["train", task, "--plugin", f"{plugin}.py", *words, "--runs-dir", runs_dir])
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001  (a child must not go on with the tests)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _die_before(step):
    """Kill this process at the ``step``-th training step; 0: never."""
    from phmrun.engine.module import TrainingModule

    original, count = TrainingModule.training_step, [step]

    def training_step(*arguments, **options):
        count[0] -= 1
        if count[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    TrainingModule.training_step = training_step


def weights(runs_dir):
    """Run id, scores, and the tensors of the last checkpoint."""
    (summary,) = list_runs(Path(runs_dir))
    run = Run(summary.path)
    assert run.status.state is State.DONE
    scores = {name: score for name, score in run.metrics().items() if "per_second" not in name}
    return run.id, scores, torch.load(run.checkpoints / "last.ckpt")


def _tensors(value):
    """Tensors of nested lists and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for item in items for tensor in _tensors(item)]


@pytest.mark.parametrize("plugin", USES)
def test_a_plug_in_is_killed_and_resumed_bit_for_bit(plugin, folder):
    assert train(plugin, "whole") == 0
    assert train(plugin, "parts", KILLED + 1) == -signal.SIGKILL
    assert train(plugin, "parts") == 0
    (run_id, scores, whole), (same_id, same_scores, parts) = weights("whole"), weights("parts")
    assert (run_id, scores) == (same_id, same_scores)
    for name, tensor in whole["state_dict"].items():
        assert torch.equal(tensor, parts["state_dict"][name]), name
    states = [_tensors(checkpoint["optimizer_states"]) for checkpoint in (whole, parts)]
    assert len(states[0]) == len(states[1])
    assert all(torch.equal(*pair) for pair in zip(*states, strict=True))
