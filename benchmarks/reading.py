"""Files of phmrun that run before the first loss of a training, and switches between them.

A file counts once one of its functions is called; top levels of modules do not count. A switch is a call from one file
to another, at the first call of each function. A first training prepares the data, so that the cache is warm.

``python -m benchmarks.reading [phmrun arguments]`` (default: ``train nmt --layer phm --n 8``)
"""

import os
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from phmrun.cli.app import main as phmrun

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ["train", "nmt", "--layer", "phm", "--n", "8"]


class Trace:
    """Files entered and switches, until the first loss."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.functions: set[Any] = set()
        self.switches = 0
        self.done = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Profile function of the interpreter."""
        if self.done or event not in ("call", "return"):
            return
        name = _ours(frame)
        if event == "return":
            self.done = bool(name and frame.f_code.co_name == "training_step")
            return
        if name is None or frame.f_code.co_name == "<module>" or frame.f_code in self.functions:
            return
        self.functions.add(frame.f_code)
        if name not in self.files:
            self.files.append(name)
        caller = frame.f_back
        while caller is not None and _ours(caller) is None:
            caller = caller.f_back
        self.switches += caller is not None and _ours(caller) != name


def _ours(frame: FrameType) -> str | None:
    path = frame.f_code.co_filename
    for folder in ("phmrun", "tasks"):
        if path.startswith(f"{ROOT}/{folder}/"):
            return os.path.relpath(path, ROOT).removeprefix("phmrun/tasks/")
    return None


def main() -> None:
    """Train twice for one step, the second time with the trace."""
    arguments = sys.argv[1:] or DEFAULT
    os.environ.setdefault("WANDB_MODE", "disabled")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PHMRUN_CACHE", f"{folder}/cache")
        short = ["--max-steps", "1", "--set", "hardware.accelerator=cpu"]
        trace = Trace()
        for number in range(2):
            sys.setprofile(trace if number else None)
            try:
                phmrun([*arguments, *short, "--runs-dir", f"{folder}/runs{number}"])
            except SystemExit as end:
                if end.code:
                    raise
            finally:
                sys.setprofile(None)
    print(f"{len(trace.files)} files entered before the first loss, {trace.switches} first-call switches")
    for name in trace.files:
        print(f"  {name}")


if __name__ == "__main__":
    main()
