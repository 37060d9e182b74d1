"""CPU seconds of a training step by two versions of phmrun, by turns, one thread.

Each version trains in a process of its own, by its own ``phmrun train``, and waits after every few optimizer steps for
its turn. The ratio is the median over rounds of the quotient within a round. Run from a checkout::

    python -m benchmarks.versions OTHER_CHECKOUT -- sva --layer phm --n 4
    python -m benchmarks.versions OTHER_CHECKOUT --steps 1 -- nmt --config configs/nmt/demo.yaml
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Training:
    """``phmrun train`` in a process that stops after every few optimizer steps.

    Args:
        checkout: Folder of the version, with its environment in ``.venv``.
        steps: Optimizer steps of a turn.
        arguments: Arguments of ``phmrun train``.
        folder: Empty folder of the run, and of its log.
        script: File that trains; its options are those of this one's worker.

    Attributes:
        norm: Euclidean norm of all trained weights after the last turn.
    """

    def __init__(
        self, checkout: Path, steps: int, arguments: Sequence[str], folder: Path, script: str = __file__
    ) -> None:
        reading, writing = os.pipe()
        self.log = folder / "log.txt"
        settings = {"OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled", "PYTHONPATH": str(checkout)}
        python = sys.executable if checkout == ROOT else str(checkout / ".venv" / "bin" / "python")
        options = [*arguments, "--runs-dir", str(folder)]
        command = [python, script, "--worker", str(writing), str(steps), *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=os.environ | settings, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writing]
            )
        os.close(writing)
        self.times = os.fdopen(reading)
        self.read()  # the first steps set things up

    def turn(self) -> float:
        """Train for a turn and return its CPU seconds."""
        if self.process.stdin:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        return self.read()

    def read(self) -> float:
        """Return the CPU seconds of a turn that was begun.

        Raises:
            SystemExit: The training ended; shows the end of its log.
        """
        line = self.times.readline()
        if not line:
            raise SystemExit(f"{self.process.args}\n" + self.log.read_text(errors="replace")[-2000:])
        seconds, self.norm = map(float, line.split())
        return seconds

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


def take_turns(writing: int, steps: int) -> None:
    """After every few optimizer steps, write the CPU seconds and the norm of the weights, and wait for a line."""
    from torch.nn.utils import get_total_norm
    from torch.optim.optimizer import register_optimizer_step_post_hook

    state = {"steps": 0, "began": 0.0}

    def stepped(optimizer: Any, *_: Any) -> None:
        state["steps"] += 1
        if state["steps"] % steps:
            return
        seconds = time.process_time() - state["began"]
        norm = get_total_norm([weight.detach() for group in optimizer.param_groups for weight in group["params"]])
        os.write(writing, f"{seconds} {float(norm)}\n".encode())
        if not sys.stdin.readline():
            os._exit(1)  # nobody reads on
        state["began"] = time.process_time()

    register_optimizer_step_post_hook(stepped)


def work(writing: int, steps: int, arguments: list[str]) -> None:
    """Train by turns."""
    from phmrun.cli.app import main as phmrun

    take_turns(writing, steps)
    phmrun(["train", *arguments])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the median seconds of a step by both versions, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="Folder of the other version, with its environment in .venv.")
    parser.add_argument("--rounds", type=int, default=7, help="Turns of each.")
    parser.add_argument("--steps", type=int, default=5, help="Optimizer steps of a turn.")
    parser.add_argument("train", nargs="+", help="Arguments of phmrun train, after --.")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        trainings = []
        for name, checkout in (("before", args.checkout.resolve()), ("now", ROOT)):
            place = Path(folder) / name
            place.mkdir()
            trainings.append(Training(checkout, args.steps, args.train, place))
        seconds: list[list[float]] = [[], []]
        for turn in range(args.rounds):
            for version in (0, 1) if turn % 2 else (1, 0):
                seconds[version].append(trainings[version].turn() / args.steps)
        for training in trainings:
            training.end()
    before, now = seconds
    ratio = statistics.median(mine / its for mine, its in zip(now, before, strict=True))
    milliseconds = " ".join(f"{1000 * statistics.median(values):8.1f} ms" for values in seconds)
    print(f"{ratio:.3f} {milliseconds}, load {os.getloadavg()[0]:.1f}: {' '.join(args.train)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        main()
