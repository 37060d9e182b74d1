"""A process whose companion has died ends by itself, with a line that says so."""

import os
import subprocess
import time
from threading import Event

import pytest

from phmrun.engine import processes
from phmrun.engine.processes import ending_with, follower_died, leader_died

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def ended(monkeypatch):
    """The exit codes that this process would have ended with."""
    codes: list[int] = []

    def end(code):
        codes.append(code)
        raise SystemExit  # of the thread that watches

    monkeypatch.setattr(processes, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(processes.os, "_exit", end)
    monkeypatch.setenv("PHMRUN_LEADER", "")
    return codes


def wait_for(found) -> None:
    end = time.monotonic() + 20
    while not found and time.monotonic() < end:
        time.sleep(0.01)


def test_the_first_ends_when_another_is_killed(ended, caplog):
    launched = [subprocess.Popen(["sleep", "60"]), subprocess.Popen(["sleep", "60"])]
    followers, output = list(launched), []
    with ending_with(follower_died(lambda: launched), output.append):
        time.sleep(0.1)
        assert launched == []  # replaces Lightning's handler, which would kill this process silently
        assert ended == []
        followers[1].kill()
        wait_for(ended)
    followers[0].kill()
    for follower in followers:
        follower.wait()
    assert ended == [4]
    assert [death.what for death in output] == ["process 3 of those that train together was ended by SIGKILL"]
    assert "process 3" in caplog.text
    assert os.environ["PHMRUN_LEADER"] == str(os.getpid())


def test_another_ends_when_the_first_has_died(ended, monkeypatch, caplog):
    gone = Event()
    monkeypatch.setenv("PHMRUN_LEADER", "4711")
    monkeypatch.setattr(processes.os, "getppid", lambda: 1 if gone.is_set() else 4711)
    with ending_with(leader_died()):
        time.sleep(0.1)
        assert ended == []
        gone.set()
        wait_for(ended)
    assert ended == [4]
    assert "the first of the processes" in caplog.text
