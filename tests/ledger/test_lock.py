"""The lock, with real processes that are killed and that race."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger.lock import STALE_AFTER, Holder, Lock

HOLD = """
import sys, time
from pathlib import Path
from phmrun.ledger.lock import Lock
with Lock(Path(sys.argv[1]), "the run x"):
    print("held", flush=True)
    time.sleep(60)
"""

# Each racer waits for the starting signal (a file), tries once, and keeps what it got until everybody has tried.
RACE = """
import sys, time
from pathlib import Path
from phmrun.errors import PhmrunError
from phmrun.ledger.lock import Lock

print("ready", flush=True)
for line in sys.stdin:
    directory = Path(line.strip())
    while not (directory / "go").exists():
        time.sleep(0)
    lock = Lock(directory / "lock", "the run x")
    try:
        lock.acquire()
        print("won", flush=True)
    except PhmrunError:
        print("refused", flush=True)
    sys.stdin.readline()
    lock.release()
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def dead_lock(path: Path, **changes: object) -> None:
    """The lock file of a process of this machine that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    here = Holder.this_process()
    record = {"host": here.host, "pid": process.pid, "space": here.space, "token": here.token}
    path.write_text(json.dumps({**record, **changes}))


@pytest.mark.parametrize("stopped", [False, True])
def test_living_holder_is_named_even_if_it_is_stopped(tmp_path: Path, stopped: bool) -> None:
    process = start(HOLD, str(tmp_path / "lock"))
    try:
        assert said(process) == "held"
        if stopped:
            process.send_signal(signal.SIGSTOP)
            os.utime(tmp_path / "lock", (0, 0))
        with pytest.raises(PhmrunError) as refused:
            Lock(tmp_path / "lock", "the run x").acquire()
        assert refused.value.code == ExitCode.USAGE
        assert str(process.pid) in refused.value.what
        assert Holder.this_process().host in refused.value.what
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_killed_holder_is_replaced(tmp_path: Path, reaped: bool) -> None:
    process = start(HOLD, str(tmp_path / "lock"))
    assert said(process) == "held"
    process.send_signal(signal.SIGKILL)
    if reaped:
        process.wait()
    else:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with Lock(tmp_path / "lock", "the run x"):
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    process.wait()
    assert list(tmp_path.iterdir()) == []


FOREIGN = pytest.mark.parametrize("foreign", [{"host": "elsewhere"}, {"space": "pid:[1]"}], ids=["host", "container"])


@FOREIGN
def test_elsewhere_an_old_lock_is_dead(tmp_path: Path, foreign: dict[str, str]) -> None:
    path = tmp_path / "lock"
    dead_lock(path, **foreign)
    with pytest.raises(PhmrunError) as refused:
        Lock(path, "the run x").acquire()
    assert "If its machine is gone, wait 120 seconds." in str(refused.value)
    age(path, STALE_AFTER + 1)
    with Lock(path, "the run x") as lock:
        assert lock.still_held()
        assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]


def test_who_was_taken_over_is_told_before_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = Lock(path, "the run x"), Lock(path, "the run x")
    first.require()  # it has not held it yet
    first.acquire()
    first.require()
    path.unlink()
    with second:
        with pytest.raises(PhmrunError, match=f"was taken over by process {os.getpid()}"):
            first.require()
        second.require()
    first.release()
    first.require()  # it no longer wants it


def age(path: Path, seconds: float) -> None:
    """Dates a file so many seconds ago."""
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def test_forked_copy_may_not_write(tmp_path: Path) -> None:
    with Lock(tmp_path / "lock", "the run x") as lock:
        child = os.fork()
        if child == 0:
            try:
                lock.require()
            except PhmrunError as error:
                os._exit(error.code)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        lock.require()


@pytest.mark.long
def test_exactly_one_of_eight_wins(tmp_path: Path) -> None:
    """True if the lock is free or its holder is dead."""
    dead_lock(tmp_path / "dead")
    racers = [start(RACE) for _ in range(8)]
    try:
        for racer in racers:
            assert said(racer) == "ready"
        for number in range(30):
            directory = tmp_path / str(number)
            directory.mkdir()
            if number % 2:
                (directory / "lock").write_bytes((tmp_path / "dead").read_bytes())
            for racer in racers:
                tell(racer, str(directory))
            (directory / "go").touch()
            assert sorted(said(racer) for racer in racers) == ["refused"] * 7 + ["won"]
            assert [path.name for path in directory.glob("lock*")] == ["lock"]
            for racer in racers:
                tell(racer, "release")
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def test_a_fork_that_outlives_its_killed_parent_holds_nothing(tmp_path: Path) -> None:
    script = HOLD.replace('print("held", flush=True)', 'os.fork() or time.sleep(8)\n    print("held", flush=True)')
    process = start(f"import os\n{script}", str(tmp_path / "lock"))
    assert said(process) == "held"
    process.kill()
    process.wait()
    with Lock(tmp_path / "lock", "the run x", wait=2.0) as lock:
        assert lock.still_held()
