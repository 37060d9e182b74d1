"""Local executor: runs in slots, each in its own process group.

A run survives a killed planner: it keeps the lock of its run directory and ends by itself. A planner that is
interrupted stops its runs.
"""

import os
import subprocess
from collections.abc import Sequence

from phmrun.ledger.child import end
from phmrun.sweeps.executors import Ended, Job, start_job


class LocalExecutor:
    """Executor on this machine, one child process per slot.

    Args:
        slots: Number of jobs at a time.
        devices: GPU numbers, used in turn by the slots; if empty, jobs see the GPUs of this process.
    """

    def __init__(self, slots: int, devices: Sequence[str] = ()) -> None:
        self.devices = list(devices)
        self._free = list(range(slots))
        self._running: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}  # slot and process of each run

    def room(self) -> int:
        """Return the number of free slots."""
        return len(self._free)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start the jobs, each in the lowest free slot.

        If there are devices, the job sees that of its slot only (``CUDA_VISIBLE_DEVICES``).

        Raises:
            IndexError: There are more jobs than free slots.
            OSError: The log of a job cannot be written.
        """
        for job in jobs:
            slot, environment, where = self._free[0], dict(os.environ), ""
            if self.devices:
                environment["CUDA_VISIBLE_DEVICES"] = self.devices[slot % len(self.devices)]
                where = f" on device {environment['CUDA_VISIBLE_DEVICES']}"
            self._running[job.run_id] = slot, start_job(job, where, environment)
            self._free.remove(slot)

    def poll(self) -> list[Ended]:
        """Return the jobs whose processes have ended since the last call.

        Their slots become free.
        """
        ended = []
        for run_id, (slot, process) in list(self._running.items()):
            code = process.poll()
            if code is not None:
                del self._running[run_id]
                self._free = sorted([*self._free, slot])
                ended.append(Ended(run_id, code))
        return ended

    def stop(self) -> None:
        """Interrupt all jobs, then send stronger signals, until they have ended.

        After SIGINT, it waits at most 30 seconds, after SIGTERM and SIGKILL 10 seconds each.
        """
        end([process for _, process in self._running.values()])
