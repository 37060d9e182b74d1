"""Processes of a distributed training: ranks, reductions, watch for deaths, memory."""

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
"""Seconds between two checks that the other processes are alive."""
_LEADER = "PHMRUN_LEADER"
"""Environment variable with the id of the process that started this one."""


class Death(NamedTuple):
    """Death of a process of a distributed training.

    Attributes:
        what: Message.
        code: Exit code for the other processes.
    """

    what: str
    code: int


@contextmanager
def ending_with(
    death: Callable[[], Death | None], before_exit: Callable[[Death], None] = lambda _: None
) -> Iterator[None]:
    """Exit this process during the block if another process of the training dies.

    It would wait for the other otherwise, for up to half an hour. A thread checks every 0.25 seconds, logs an error and
    calls ``os._exit`` with the death's code. The main thread may be blocked inside a library.

    Args:
        death: Returns the death of a process, ``None`` if all are alive.
        before_exit: Called before the exit.
    """
    left = threading.Event()

    def look() -> None:
        """Check until the block ends.

        Exit the process at the first death.
        """
        while not left.wait(LOOK_EVERY):
            if dead := death():
                LOG.error("%s; the same command continues from the last checkpoint", dead.what)
                before_exit(dead)
                os._exit(dead.code)

    threading.Thread(target=look, name="watch-of-processes", daemon=True).start()
    try:
        yield
    finally:
        left.set()


def await_the_watch(error: RuntimeError) -> None:
    """Wait 10 seconds if the error is a lost connection to another process.

    Such errors are those of torch.distributed, and those whose text names "gloo". :func:`ending_with` then ends this
    process. For other errors, return at once.
    """
    if isinstance(error, dist.DistError) or "gloo" in str(error):
        time.sleep(40 * LOOK_EVERY)


def leader_died() -> Callable[[], Death | None]:
    """Return a check for :func:`ending_with`: has the process that started this one ended?

    The leader's process id is in ``PHMRUN_LEADER``. If the parent of this process is another one, the check
    returns a death with exit code 4. Else, or without the variable (phmrun did not start this process), it is None.
    """
    leader = os.environ.get(_LEADER)
    what = "the first of the processes that train together has ended, and this one stops"
    return lambda: Death(what, ExitCode.TRAINING) if leader and str(os.getppid()) != leader else None


def follower_died(launched: Callable[[], list["subprocess.Popen[bytes]"]]) -> Callable[[], Death | None]:
    """Return a check for :func:`ending_with`: has a process that this one started failed?

    The death is that of the first such process in the order of their start. It has the process's exit code, or 4 if a
    signal ended it. An end with code 0 is no failure. Sets the environment variable ``PHMRUN_LEADER``, by which the
    started processes know their leader.

    Args:
        launched: Returns Lightning's list of started processes. Each check empties the list, because Lightning's own
            watch would kill this process silently.
    """
    os.environ[_LEADER] = str(os.getpid())
    followers: list[subprocess.Popen[bytes]] = []

    def look() -> Death | None:
        """Return the death of the first started process that has failed.

        None if none has; an end with code 0 is no failure.
        """
        started = launched()
        followers.extend(started)
        started.clear()
        for number, follower in enumerate(followers, 2):
            if code := follower.poll():
                how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                what = f"process {number} of those that train together {how}"
                return Death(what, code if code > 0 else ExitCode.TRAINING)
        return None

    return look


def is_distributed() -> bool:
    """Return True if this process trains with others.

    That is a process group of torch.distributed with two processes or more.
    """
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def rank() -> int:
    """Return the rank of this process, 0 if it is alone."""
    return dist.get_rank() if is_distributed() else 0


def world() -> int:
    """Return the number of processes; 1 if this one is alone."""
    return dist.get_world_size() if is_distributed() else 1


def all_gather(value: Value) -> list[Value]:
    """Return the values of all processes, by rank.

    All processes must call it. A single process gets its own value alone.
    """
    if not is_distributed():
        return [value]
    values: list[Any] = [None] * world()
    dist.all_gather_object(values, value)
    return values


class Agreement:
    """Maximum of all processes' values, one call late.

    No process has to wait in every step. A reduction that is started in one call is read in the next.
    All processes must call equally often.
    """

    def __init__(self) -> None:
        self._pending: tuple[dist.Work, torch.Tensor] | None = None

    def all_reduce_max(self, value: float, device: torch.device) -> float:
        """Return the largest value of the previous call, 0 at first.

        The maximum is over all processes. A single process gets its present value.
        """
        if not is_distributed():
            return value
        before = 0.0
        if self._pending:
            self._pending[0].wait()
            before = float(self._pending[1])
        shared = torch.tensor(float(value), device=device)
        work = dist.all_reduce(shared, op=dist.ReduceOp.MAX, async_op=True)
        self._pending = None if work is None else (work, shared)
        return before


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # constants of glibc's malloc.h
_MOST = 2**31 - 1


@functools.cache
def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for the rest of the process.

    Return True if glibc accepts the settings, False if not or without glibc. By default, glibc returns large freed
    blocks to the system, which clears each page of the next block. That takes up to 40 % of the CPU time of a training
    step with tensors of tens of megabytes. Peak memory grows by fragments (3 % in fine-tuning MiniLM); what was freed
    before is returned first. Only the first call has an effect; later ones return its result.
    """
    try:
        glibc = ctypes.CDLL(None)
        glibc.malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    return bool(glibc.mallopt(_MMAP_MAX, 0)) and bool(glibc.mallopt(_TRIM_THRESHOLD, _MOST))
