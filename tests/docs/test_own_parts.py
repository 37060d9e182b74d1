"""The plug-ins of the page on own parts: killed and resumed bit for bit, and each in a sweep with a verdict."""

import re
import signal
from pathlib import Path

import pytest
from exact_resume import arm, outcome, same
from forks import completed

from phmrun.cli.app import main
from phmrun.ledger import Run, State

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

    def program(command):
        if kill_at:
            arm("micro-batch", kill_at)
        main(command)

    arguments = ["train", task, "--plugin", f"{plugin}.py", *words, "--runs-dir", runs_dir]
    return completed(arguments, Path.cwd(), program=program).returncode


def ended(runs_dir):
    """The only run of a directory, done."""
    (path,) = Path(runs_dir).iterdir()
    assert Run(path).status.state is State.DONE
    return Run(path)


@pytest.mark.parametrize("plugin", USES)
def test_a_plug_in_is_killed_and_resumed_bit_for_bit(plugin, folder):
    assert train(plugin, "whole") == 0
    assert train(plugin, "parts", KILLED + 1) == -signal.SIGKILL
    assert train(plugin, "parts") == 0
    whole, parts = ended("whole"), ended("parts")
    assert whole.id == parts.id
    same(outcome(whole), outcome(parts))
