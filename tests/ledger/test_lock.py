"""The lock, with real processes that are killed and that race."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import lock as lock_module
from phmrun.ledger.lock import STALE_AFTER, Holder, Lock, living_holder, unlock

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
    record = {"host": here.host, "pid": process.pid, "born": "boot:1", "space": here.space, "token": here.token}
    path.write_text(json.dumps({**record, **changes}))


def test_held_within_the_block_only(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with Lock(path, "the run x") as lock:
        assert lock.still_held()
        holder = living_holder(path)
        assert holder is not None
        assert holder.pid == os.getpid()
    assert not path.exists()
    assert living_holder(path) is None


def test_living_holder_is_named(tmp_path: Path) -> None:
    process = start(HOLD, str(tmp_path / "lock"))
    try:
        assert said(process) == "held"
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


def test_stopped_process_still_holds(tmp_path: Path) -> None:
    process = start(HOLD, str(tmp_path / "lock"))
    try:
        assert said(process) == "held"
        process.send_signal(signal.SIGSTOP)
        os.utime(tmp_path / "lock", (0, 0))
        with pytest.raises(PhmrunError):
            Lock(tmp_path / "lock", "the run x").acquire()
    finally:
        process.kill()
        process.wait()


def test_same_pid_of_another_process_is_dead(tmp_path: Path) -> None:
    dead_lock(tmp_path / "lock", pid=os.getpid())
    with Lock(tmp_path / "lock", "the run x") as lock:
        assert lock.still_held()


FOREIGN = pytest.mark.parametrize("foreign", [{"host": "elsewhere"}, {"space": "pid:[1]"}], ids=["host", "container"])


@FOREIGN
def test_elsewhere_an_old_lock_that_stands_still_is_dead(tmp_path: Path, foreign: dict[str, str], quick: None) -> None:
    path = tmp_path / "lock"
    dead_lock(path, **foreign)
    with pytest.raises(PhmrunError) as refused:
        Lock(path, "the run x").acquire()
    assert f"phmrun runs unlock {tmp_path}" in str(refused.value)
    age(path, STALE_AFTER + 1)
    with Lock(path, "the run x") as lock:
        assert lock.still_held()
        assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]


@FOREIGN
@pytest.mark.parametrize("hours", [-2, -0.1, 0.1, 2])
def test_elsewhere_a_sign_of_life_counts_however_it_is_dated(
    tmp_path: Path, foreign: dict[str, str], hours: float, quick: None
) -> None:
    path = tmp_path / "lock"
    dead_lock(path, **foreign)
    stop = threading.Event()

    def live() -> None:
        """Touches the file by a clock that is wrong by so many hours."""
        while not stop.wait(lock_module.HEARTBEAT):
            age(path, -hours * 3600)

    age(path, -hours * 3600)
    beat = threading.Thread(target=live)
    beat.start()
    try:
        with pytest.raises(PhmrunError, match="in use by"):
            Lock(path, "the run x").acquire()
        with pytest.raises(PhmrunError, match="in use by"):
            unlock(path, "the run x")
    finally:
        stop.set()
        beat.join()


def test_a_dead_lock_from_the_future_can_be_removed(tmp_path: Path, quick: None) -> None:
    path = tmp_path / "lock"
    dead_lock(path, host="elsewhere")
    age(path, -7200)
    with pytest.raises(PhmrunError, match=r"in use by process .* on elsewhere"):
        Lock(path, "the run x").acquire()
    holder = unlock(path, "the run x")
    assert holder is not None
    assert holder.host == "elsewhere"
    assert list(tmp_path.iterdir()) == []
    assert unlock(path, "the run x") is None


def test_the_lock_of_a_living_process_of_this_machine_is_not_removed(tmp_path: Path, quick: None) -> None:
    process = start(HOLD, str(tmp_path / "lock"))
    try:
        assert said(process) == "held"
        age(tmp_path / "lock", 7200)
        with pytest.raises(PhmrunError, match=f"in use by process {process.pid}"):
            unlock(tmp_path / "lock", "the run x")
    finally:
        process.kill()
        process.wait()


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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life that are due ten times a second."""
    monkeypatch.setattr(lock_module, "HEARTBEAT", 0.1)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"host": 1}', '{"token": "../../x"}'])
def test_unreadable_lock_holds_while_it_is_young(tmp_path: Path, content: str, quick: None) -> None:
    path = tmp_path / "lock"
    path.write_text(content)
    with pytest.raises(PhmrunError):
        Lock(path, "the run x").acquire()
    os.utime(path, (0, 0))
    with Lock(path, "the run x"):
        assert living_holder(path) is not None


def test_dead_claim_on_a_dead_lock(tmp_path: Path) -> None:
    dead_lock(tmp_path / "lock", token="aa")
    dead_lock(tmp_path / "lock.aa", token="bb")
    with Lock(tmp_path / "lock", "the run x"):
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_heartbeat_touches_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT", 0.01)
    path = tmp_path / "lock"
    with Lock(path, "the run x"):
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 5
        while path.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0


def test_lock_of_another_is_not_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = Lock(path, "the run x")
    lock.acquire()
    path.unlink()
    with Lock(path, "the run x") as other:
        assert not lock.still_held()
        lock.release()
        assert other.still_held()


def test_forked_copy_does_not_release(tmp_path: Path) -> None:
    with Lock(tmp_path / "lock", "the run x") as lock:
        child = os.fork()
        if child == 0:
            lock.release()
            os._exit(0)
        os.waitpid(child, 0)
        assert lock.still_held()


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


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_folder_or_pipe_in_the_place_of_a_lock_is_one_error(tmp_path: Path, make) -> None:
    path = tmp_path / "lock"
    make(path)
    for use in (Lock(path, "the run x").acquire, lambda: unlock(path, "the run x")):
        with pytest.raises(PhmrunError, match=r"the lock is a (folder|pipe or a device)") as failed:
            use()
        assert failed.value.code == 3
    assert living_holder(path) is None


def test_waits_for_a_short_holder(tmp_path: Path) -> None:
    process = start(HOLD.replace("60", "0.2"), str(tmp_path / "lock"))
    assert said(process) == "held"
    with Lock(tmp_path / "lock", "the run x", wait=10):
        pass
    process.wait()


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


def test_a_full_disk_leaves_no_lock_without_a_holder(tmp_path, monkeypatch):
    def full(descriptor, content):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("phmrun.ledger.lock.os.write", full)
        with pytest.raises(OSError, match="No space"):
            Lock(tmp_path / "lock", "the run x").acquire()
    assert not (tmp_path / "lock").exists()
    with Lock(tmp_path / "lock", "the run x"):
        assert (tmp_path / "lock").exists()


def test_a_lock_is_never_seen_without_its_holder(tmp_path, monkeypatch):
    """Nothing has the lock's name until its content is written."""
    path, seen, write = tmp_path / "lock", [], os.write

    def watched(descriptor, content):
        seen.append(path.exists())
        return write(descriptor, content)

    monkeypatch.setattr("phmrun.ledger.lock.os.write", watched)
    with Lock(tmp_path / "lock", "the run x"):
        assert json.loads(path.read_text())["pid"] == os.getpid()
        assert seen[0] is False
        assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EACCES])
def test_a_file_system_without_hard_links_is_locked_too(tmp_path, monkeypatch, number):
    def refused(source, target):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("phmrun.ledger.lock.os.link", refused)
    with Lock(tmp_path / "lock", "the run x"):
        with pytest.raises(PhmrunError, match="in use"):
            Lock(tmp_path / "lock", "the run x").acquire()
        assert [entry.name for entry in tmp_path.iterdir()] == ["lock"]
    assert not list(tmp_path.iterdir())
