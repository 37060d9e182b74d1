"""Ray executor: runs as Ray Core tasks, with fractional GPUs and retries.

The machines of the cluster need phmrun and a shared file system. If a task's machine is lost, Ray restarts the task
elsewhere, and the run resumes from its last checkpoint.
"""

import logging
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from phmrun.errors import PhmrunError
from phmrun.ledger.child import GRACE, end
from phmrun.registry import extra_package
from phmrun.sweeps.executors import Ended, Job, start_job

RETRIES = 3  # restarts of a task whose machine or worker was lost
WAIT = sum(seconds for _, seconds in GRACE)  # seconds to wait for interrupted tasks
CANCEL_AGAIN = 5.0  # seconds between two cancellations of a task


class RayExecutor:
    """Executor on a Ray cluster, one task per job: that of ``RAY_ADDRESS``, else a new one on this machine.

    Args:
        cpus: CPUs of each job.
        gpus: GPUs of each job, possibly a fraction.
        jobs: Jobs at a time, but no more than the cluster has room for; as many as fit if None or 0.

    Raises:
        PhmrunError: Ray is not installed, or the cluster is unreachable or too small for one job.
    """

    def __init__(self, *, cpus: float = 1, gpus: float = 0, jobs: int | None = None) -> None:
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a task without GPUs keeps what it sees
        self._ray = ray = extra_package("ray", "ray")
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise PhmrunError(f"the Ray cluster cannot be reached: {error}", where="RAY_ADDRESS") from error
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
        """Return the number of further jobs that the cluster takes."""
        return self.slots - len(self._running)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit the jobs to the cluster, however many they are."""
        for job in jobs:
            self._running[self._task.remote(job)] = job.run_id

    def poll(self) -> list[Ended]:
        """Return the jobs whose tasks have ended or failed since the last call.

        Their exit codes are those of :meth:`_code`.
        """
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [Ended(self._running.pop(reference), self._code(reference)) for reference in ready]

    def stop(self) -> None:
        """Cancel all tasks, and wait for them.

        This interrupts their runs. The wait takes about 50 seconds at most. A task is canceled again every 5 seconds
        until it ends, since an interrupt can be lost on a busy machine.
        """
        left, deadline = list(self._running), time.monotonic() + WAIT
        while left and time.monotonic() < deadline:
            for reference in left:
                self._ray.cancel(reference)
            _, left = self._ray.wait(left, num_returns=len(left), timeout=CANCEL_AGAIN)

    def _code(self, reference: Any) -> int:
        """Return the exit code of an ended task.

        It is -SIGINT if the task was canceled, -SIGKILL if it was lost or failed.
        """
        try:
            return int(self._ray.get(reference))
        except self._ray.exceptions.TaskCancelledError:
            return -signal.SIGINT
        except self._ray.exceptions.RayError:
            return -signal.SIGKILL


def carry_out(job: Job) -> int:
    """Run a job on the task's machine, and return its exit code.

    The job is a child process. If the task is canceled, the child gets SIGINT, after 30 seconds SIGTERM, after 10 more
    SIGKILL.
    """
    canceled: list[int] = []
    # Ray cancels by interrupts, which a cluster in the background of a shell ignores. One may come in `start_job`.
    before = signal.signal(signal.SIGINT, lambda which, _: canceled.append(which))
    # Ray blocks SIGINT, and a child would inherit that.
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    child = start_job(job, f" on {os.uname().nodename}")
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    while child.poll() is None and not canceled:
        time.sleep(0.2)
    end([child])
    signal.signal(signal.SIGINT, before)
    return child.wait()
