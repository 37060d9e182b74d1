"""Take-overs of a lock: two machines with different clocks must never write at once.

Run ``python tests/kills/takeovers.py --trials 100``. Each machine is a process that pretends to be another host. It
dates its files by a clock that is wrong by up to two hours, as clients of a network file system may do. The first takes
the lock and writes a run's history and status; then it is killed, stopped and later woken, or left alone. The second
tries to take the lock all the while. A line of one in the history after the first line of the other is an overlap.
"""

import argparse
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phmrun.errors import PhmrunError
from phmrun.files import remove_unfinished, write_text
from phmrun.ledger import Run, State
from phmrun.ledger import lock as module
from phmrun.ledger.lock import Lock

FATES = ("killed", "stopped", "left alone")


@dataclass(frozen=True)
class Trial:
    """Result of a trial with two machines.

    Attributes:
        fate: What became of the first.
        skews: Seconds by which the clocks are wrong.
        taken: Whether the second got the lock, and how.
        overlap: Rows, and a status, that the first wrote after the second had begun.
    """

    fate: str
    skews: tuple[float, float]
    taken: str
    overlap: int

    @property
    def right(self) -> bool:
        """True if no two machines wrote at once, and exactly the dead holders were replaced."""
        return not self.overlap and (self.taken != "not") == (self.fate != "left alone")


def attempt(folder: Path, draw: random.Random) -> Trial:
    """Run one trial in a new folder."""
    Run.create(folder.parent, folder.name, "task: none\n")
    fate = draw.choice(FATES)
    skews = (draw.uniform(-7200, 7200), draw.uniform(-7200, 7200))
    first = _machine("first", skews[0], folder, _write)
    _until(lambda: _writers(folder), 60)
    second = _machine("second", skews[1], folder, _take_over)
    time.sleep(draw.uniform(0.1, 1.0))
    if fate != "left alone":
        os.kill(first, signal.SIGKILL if fate == "killed" else signal.SIGSTOP)
    _until(lambda: (folder / "answer").exists(), 60)
    taken = (folder / "answer").read_text()
    if fate == "stopped":
        os.kill(first, signal.SIGCONT)
        time.sleep(1.5)
    elif taken != "not":
        time.sleep(0.2)
    writers, status = _writers(folder), json.loads((folder / "status.json").read_bytes())
    _end(first)
    _end(second)
    begun = writers.index("second") if "second" in writers else len(writers)
    overlap = writers[begun:].count("first") + ("second" in writers and status["reason"] == "first")
    return Trial(fate, skews, taken, overlap)


def _machine(name: str, skew: float, folder: Path, work: Any) -> int:
    """A process on a machine of that name, whose clock is wrong by ``skew`` seconds; its process id."""
    pid = os.fork()
    if pid:
        return pid
    original, clock = os.utime, time.time

    def dated(path: Any, times: Any = None, **more: Any) -> None:
        moment = clock() + skew
        original(path, (moment, moment) if times is None else times, **more)

    module.os.utime = dated  # type: ignore[assignment]
    module.time.time = lambda: clock() + skew  # type: ignore[assignment]
    socket.gethostname = lambda: f"machine-{name}"
    module.HEARTBEAT, module.STALE_AFTER = 0.4, 2.0
    try:
        work(name, folder)
    finally:
        os._exit(0)


def _write(name: str, folder: Path) -> None:
    """Takes the lock, and writes as long as it has it."""
    run = Run(folder)
    lock = run.lock()
    if not _acquired(lock, 30.0):
        return
    os.utime(folder / "lock")
    _write_on(run, name)


def _write_on(run: Run, name: str) -> None:
    """Writes history and status until it has lost the lock."""
    remove_unfinished(run.path)
    run.history.cut(10**9)
    try:
        while True:
            run.history.append({"step": 1, "who": name})
            run.set_state(State.RUNNING, name)
            time.sleep(0.005)
    except (PhmrunError, OSError):
        time.sleep(60)


def _take_over(name: str, folder: Path) -> None:
    """Tries to take the lock for a while, then by the command that a person would give, and writes."""
    run = Run(folder)
    lock = run.lock()
    how = "by itself"
    if not _acquired(lock, 8.0):
        how = "by unlock"
        try:
            run.unlock()
        except PhmrunError:
            write_text(folder / "answer", "not")
            return
        lock.acquire()
    remove_unfinished(folder)
    run.history.cut(10**9)
    run.history.append({"step": 1, "who": name})
    run.set_state(State.RUNNING, name)
    write_text(folder / "answer", how)
    _write_on(run, name)


def _acquired(lock: Lock, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            lock.acquire()
        except PhmrunError:
            time.sleep(0.1)
        else:
            return True
    return False


def _writers(folder: Path) -> list[str]:
    """Writers of the history's rows, in order."""
    return [row["who"] for row in Run(folder).history.read()]


def _until(condition: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def _end(pid: int) -> None:
    if pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    inputs = parser.parse_args(arguments)
    draw = random.Random(inputs.seed)
    folder = Path(tempfile.mkdtemp(prefix="takeovers-"))
    wrong = 0
    counts: dict[tuple[str, str], int] = {}
    for number in range(inputs.trials):
        trial = attempt(folder / str(number), draw)
        counts[trial.fate, trial.taken] = counts.get((trial.fate, trial.taken), 0) + 1
        wrong += not trial.right
        print(number, trial, "" if trial.right else "WRONG", flush=True)
    print(f"{inputs.trials} trials, {wrong} wrong; {counts}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(run())
