"""``python tests/kills/takeovers.py --trials 100``: two machines whose clocks disagree, one lock, never two writers.

Each machine is a process of this one that believes to be another host, and dates what it touches by a clock of its own
that is wrong by up to two hours, as on a network file system whose clients set the times. The first takes the lock and
writes; then it is killed, stopped and later woken, or left alone. The second tries to take the lock all the while.
"""

import argparse
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
from phmrun.ledger import lock as module
from phmrun.ledger.lock import Lock, unlock

FATES = ("killed", "stopped", "left alone")


@dataclass(frozen=True)
class Trial:
    """What came of two machines.

    Attributes:
        fate: What became of the first.
        skews: Seconds by which the clocks are wrong.
        taken: Whether the second got the lock, and how.
        overlap: Lines that the first wrote after the second had begun.
    """

    fate: str
    skews: tuple[float, float]
    taken: str
    overlap: int

    @property
    def right(self) -> bool:
        """Whether nobody wrote beside another, and who was dead was replaced, and only who was."""
        return not self.overlap and (self.taken != "not") == (self.fate != "left alone")


def attempt(folder: Path, draw: random.Random) -> Trial:
    """One trial in a new folder."""
    folder.mkdir(parents=True)
    fate = draw.choice(FATES)
    skews = (draw.uniform(-7200, 7200), draw.uniform(-7200, 7200))
    first = _machine("first", skews[0], folder, _write)
    _until(lambda: _lines(folder, "first"), 60)
    second = _machine("second", skews[1], folder, _take_over)
    time.sleep(draw.uniform(0.1, 1.0))
    if fate != "left alone":
        os.kill(first, signal.SIGKILL if fate == "killed" else signal.SIGSTOP)
    os.waitpid(second, 0)
    if fate == "stopped":
        third = _machine("third", skews[1], folder, _write) if _taken(folder) != "not" else 0
        _until(lambda: not third or _lines(folder, "third"), 60)
        os.kill(first, signal.SIGCONT)
        time.sleep(1.0)
        _end(third)
    _end(first)
    begun = [*_lines(folder, "second"), *_lines(folder, "third")]
    late = [moment for moment in _lines(folder, "first") if begun and moment > min(begun)]
    return Trial(fate, skews, _taken(folder), len(late))


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
    lock = Lock(folder / "lock", "the run")
    _patient(lock)
    with (folder / name).open("a", buffering=1) as file:
        os.utime(folder / "lock")
        try:
            while True:
                lock.require()
                file.write(f"{time.monotonic()}\n")
                time.sleep(0.005)
        except PhmrunError:
            (folder / f"{name}-stopped").touch()


def _take_over(name: str, folder: Path) -> None:
    """Tries to take the lock for a while, then by the command that a person would give, and writes a line."""
    lock = Lock(folder / "lock", "the run")
    how = "by itself"
    if not _acquired(lock, 8.0):
        how = "by unlock"
        try:
            unlock(folder / "lock", "the run")
        except PhmrunError:
            return
        lock.acquire()
    (folder / "taken").write_text(how)
    (folder / name).write_text(f"{time.monotonic()}\n")
    lock.release()


def _patient(lock: Lock) -> None:
    if not _acquired(lock, 30.0):
        os._exit(1)


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


def _lines(folder: Path, name: str) -> list[float]:
    path = folder / name
    return [float(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def _taken(folder: Path) -> str:
    path = folder / "taken"
    return path.read_text() if path.exists() else "not"


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
    given = parser.parse_args(arguments)
    draw = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="takeovers-"))
    wrong = 0
    counts: dict[tuple[str, str], int] = {}
    for number in range(given.trials):
        trial = attempt(folder / str(number), draw)
        counts[trial.fate, trial.taken] = counts.get((trial.fate, trial.taken), 0) + 1
        wrong += not trial.right
        print(number, trial, "" if trial.right else "WRONG", flush=True)
    print(f"{given.trials} trials, {wrong} wrong; {counts}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(run())
