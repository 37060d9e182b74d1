"""Runs that are killed at a chosen moment, and equality of runs to the bit."""

import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch
from tiny_experiments import run_experiment

from phmrun.config import Experiment
from phmrun.engine import checkpoints
from phmrun.engine.callbacks import Validation
from phmrun.engine.module import TrainingModule
from phmrun.ledger import Run

Kill = tuple[str, int]
"""What the process is doing when it is killed, and the how manieth time."""


def killed(config: Experiment, runs: Path, kill: Kill, **options: Any) -> None:
    """Train in a forked process that ends itself by ``SIGKILL`` at the given moment."""
    pid = os.fork()
    if pid == 0:
        try:
            arm(*kill)
            run_experiment(config, runs, **options)
        except Exception:  # noqa: BLE001  the child must not go on with the parent's tests
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "the process came to its end"
    assert os.WTERMSIG(status) == signal.SIGKILL


def arm(moment: str, number: int) -> None:
    """Make this process kill itself at the ``number``-th time of ``moment``."""
    countdown = [number]

    def now() -> bool:
        countdown[0] -= 1
        return countdown[0] == 0

    def die(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def before(owner: Any, name: str, act: Callable[..., None]) -> None:
        original = getattr(owner, name)

        def replaced(*args: Any, **options: Any) -> Any:
            if now():
                act(*args)
            return original(*args, **options)

        setattr(owner, name, replaced)

    def torn(content: Any, file: BinaryIO) -> None:
        whole = io.BytesIO()
        checkpoints.torch.serialization.save(content, whole)
        file.write(whole.getvalue()[: len(whole.getvalue()) // 2])
        die()

    moments: dict[str, tuple[Any, str, Callable[..., None]]] = {
        "micro-batch": (TrainingModule, "training_step", die),
        "validation": (Validation, "validate", die),
        "writing": (checkpoints.torch, "save", torn),
        "evaluation": (sys.modules["phmrun.engine.experiment"], "evaluate_run", die),
    }
    before(*moments[moment])


TIMES = {"time", "train/units_per_second"}


def outcome(run: Run) -> dict[str, Any]:
    """Everything that must be the same, in plain types and tensors: checkpoints, history, scores, predictions."""
    files: dict[str, Any] = {path.name: torch.load(path) for path in sorted(run.checkpoints.iterdir())}
    for name in {"last.ckpt"} & files.keys():
        for state in files[name]["callbacks"].values():
            state.pop("seconds", None)
    history = [{key: value for key, value in row.items() if key not in TIMES} for row in run.history.read()]
    metrics = {name: score for name, score in run.metrics().items() if "per_second" not in name}
    texts = {path.name: path.read_text() for path in sorted(run.predictions.iterdir())}
    return {"checkpoints": files, "history": history, "metrics": metrics, "predictions": texts, "step": run.status.step}


def same(one: Any, other: Any, place: str = "") -> None:
    """Assert equality to the bit, all the way down."""
    assert type(one) is type(other), place
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), place
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), place
        for key in one:
            same(one[key], other[key], f"{place}/{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), place
        for index, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{place}/{index}")
    else:
        assert one == other, place
