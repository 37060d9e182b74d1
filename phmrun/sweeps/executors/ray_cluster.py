"""Runs on a Ray cluster, for when one machine is outgrown: Ray Core tasks, with parts of GPUs and retries.

The machines of the cluster need phmrun and the same file system. A task whose machine is lost is tried elsewhere, and
the run goes on from its last checkpoint.
"""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from phmrun.errors import PhmrunError
from phmrun.sweeps.executors import GRACE, Ended, Job, start

RETRIES = 3  # how often a task is started again after its machine or its worker was lost
WAIT = sum(seconds for _, seconds in GRACE)  # seconds that interrupted tasks are given to end


class RayExecutor:
    """Starts jobs as Ray tasks, each of which takes so many CPUs and GPUs, or a part of one.

    Without an address it is what ``RAY_ADDRESS`` says, else a cluster of this machine alone. So many jobs are at work
    at a time, or as many as the cluster has room for.

    Raises:
        PhmrunError: Ray is not installed, or the cluster cannot be reached, or is too small for one job.
    """

    def __init__(
        self, address: str | None = None, *, cpus: float = 1, gpus: float = 0, jobs: int | None = None
    ) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a task without GPUs keeps what it sees
        try:
            import ray
        except ImportError as error:
            raise PhmrunError("Ray is not installed", hint="Run: pip install 'phmrun[ray]'") from error
        self._ray = ray
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise PhmrunError(f"the Ray cluster cannot be reached: {error}", where="--address") from error
        there, asked = ray.cluster_resources(), {"CPU": cpus, "GPU": gpus}
        fitting = min(int(there.get(kind, 0) / amount) for kind, amount in asked.items() if amount)
        if not fitting:
            raise PhmrunError(
                f"no job fits: it takes {cpus:g} CPUs and {gpus:g} GPUs, the cluster has {there.get('CPU', 0):g} and "
                f"{there.get('GPU', 0):g}",
                where="--threads, --gpus",
            )
        self.slots = min(jobs or fitting, fitting)
        self._task: Any = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES)(carry_out)
        self._running: dict[Any, str] = {}

    def room(self) -> int:
        """Jobs that the cluster would still take."""
        return self.slots - len(self._running)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Hands the jobs to the cluster."""
        for job in jobs:
            self._running[self._task.remote(job)] = job.run_id

    def poll(self) -> list[Ended]:
        """The jobs whose tasks have ended, or were given up by Ray."""
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [Ended(self._running.pop(reference), self._code(reference)) for reference in ready]

    def stop(self) -> None:
        """Cancels all tasks, which interrupt their runs, and waits for them."""
        for reference in self._running:
            self._ray.cancel(reference)
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=WAIT)

    def _code(self, reference: Any) -> int:
        """The exit code of a job whose task has ended; that of a kill where the task did not return."""
        try:
            return int(self._ray.get(reference))
        except self._ray.exceptions.TaskCancelledError:
            return -signal.SIGINT
        except self._ray.exceptions.RayError:
            return -signal.SIGKILL


def carry_out(job: Job) -> int:
    """Runs a job in a child process, on whatever machine this is; its exit code.

    A cancelled task raises ``KeyboardInterrupt`` here, and ends its child before it goes.
    """
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # by Ray; a child would inherit that
    child = start(job, f" on {os.uname().nodename}")
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        while child.poll() is None:  # Ray sets a flag, which ends a sleep but no wait
            time.sleep(0.2)
        return child.returncode
    except KeyboardInterrupt:
        for which, seconds in GRACE:
            try:
                os.killpg(child.pid, which)
                return child.wait(seconds)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        raise
