"""What the processes that train together know of each other, and the memory that each keeps."""

import ctypes
import functools
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist

from phmrun.errors import ExitCode

LOG = logging.getLogger("phmrun.engine")
Value = TypeVar("Value")

LOOK_EVERY = 0.25
"""Seconds between two looks at whether the others live."""
_LEADER = "PHMRUN_LEADER"
"""The environment's name for the process that started this one to train with it."""


class Death(NamedTuple):
    """The end of a process without which the others cannot go on: what has happened, and their exit code."""

    what: str
    code: int


@contextmanager
def ending_with(death: Callable[[], Death | None], told: Callable[[Death], None] = lambda _: None) -> Iterator[None]:
    """Ends this process as soon as another one has died that it trains with, with a line that says so.

    They would wait for it otherwise, up to half an hour where they have not met yet. It is ended from a thread, since
    the main one may be waiting inside a library. ``told`` is called before.
    """
    left = threading.Event()

    def look() -> None:
        while not left.wait(LOOK_EVERY):
            if found := death():
                LOG.error("%s; the same command continues from the last checkpoint", found.what)
                told(found)
                os._exit(found.code)

    threading.Thread(target=look, name="watch-of-processes", daemon=True).start()
    try:
        yield
    finally:
        left.set()


def await_the_watch(error: RuntimeError) -> None:
    """Gives way to :func:`ending_with` where an error only says that the connection to another process is lost."""
    if isinstance(error, dist.DistError) or "gloo" in str(error):
        time.sleep(40 * LOOK_EVERY)


def leader_died() -> Callable[[], Death | None]:
    """Looks whether the process that started this one has ended; never, where none of ours did."""
    leader = os.environ.get(_LEADER)
    what = "the first of the processes that train together has ended, and this one stops"
    return lambda: Death(what, ExitCode.TRAINING) if leader and str(os.getppid()) != leader else None


def follower_died(launched: Callable[[], list["subprocess.Popen[bytes]"]]) -> Callable[[], Death | None]:
    """Looks whether one of the processes that this one starts has ended by an error or a signal.

    Args:
        launched: Those that are there. The list is emptied: Lightning's own watch would kill this process unheard.
    """
    os.environ[_LEADER] = str(os.getpid())
    followers: list[subprocess.Popen[bytes]] = []

    def look() -> Death | None:
        started = launched()
        followers.extend(started)
        started.clear()
        for number, one in enumerate(followers, 2):
            if code := one.poll():
                how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                what = f"process {number} of those that train together {how}"
                return Death(what, code if code > 0 else ExitCode.TRAINING)
        return None

    return look


def is_distributed() -> bool:
    """Whether this process trains with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_leader() -> bool:
    """Whether this process is the one that writes: the first of its run, on all machines."""
    return all(os.environ.get(name, "0") == "0" for name in ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK"))


def rank() -> int:
    """This process's number among those that train together, from 0."""
    return dist.get_rank() if is_distributed() else 0


def world() -> int:
    """How many processes train together."""
    return dist.get_world_size() if is_distributed() else 1


def all_gather(value: Value) -> list[Value]:
    """Every process's value, in the order of their numbers; called by all of them at once."""
    if not is_distributed():
        return [value]
    values: list[Any] = [None] * world()
    dist.all_gather_object(values, value)
    return values


class Agreement:
    """Maximum of all processes' values, one call late, so that no process waits for another in every step.

    A reduction that is started in one call is read in the next. All processes call equally often.
    """

    def __init__(self) -> None:
        self._pending: tuple[dist.Work, torch.Tensor] | None = None

    def all_reduce_max(self, value: float, device: torch.device) -> float:
        """Return the largest value of the call before, 0 at first; alone, this call's own value."""
        if not is_distributed():
            return value
        before = self._read()
        shared = torch.tensor(float(value), device=device)
        work = dist.all_reduce(shared, op=dist.ReduceOp.MAX, async_op=True)
        self._pending = None if work is None else (work, shared)
        return before

    def _read(self) -> float:
        """Return the result of the pending reduction, 0 if there is none."""
        if self._pending is None:
            return 0.0
        work, shared = self._pending
        self._pending = None
        work.wait()
        return float(shared)


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
_MOST = 2**31 - 1


@functools.cache
def keep_freed_memory() -> bool:
    """Lets the C library keep what is freed, for the rest of the process; says whether it could.

    glibc gives large blocks back to the system when they are freed, and the system clears every page of the next one:
    up to 40 % of the CPU time of a training step whose tensors have tens of megabytes. The process's peak stays what
    it was. Other C libraries are left as they are.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    return bool(set_option(_MMAP_MAX, 0)) and bool(set_option(_TRIM_THRESHOLD, _MOST))
