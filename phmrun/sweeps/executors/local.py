"""Runs on this machine, as many at a time as there are slots, each in a process group of its own.

A run outlives a planner that is killed: it goes on, holds the lock of its run directory and ends by itself. Only a
planner that is interrupted takes its runs with it.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from phmrun.sweeps.executors import GRACE, Ended, Job, start


class LocalExecutor:
    """Starts jobs as child processes, one in each slot.

    The slots take turns on the GPUs of these numbers; if there are none, the jobs see what this process sees.
    """

    def __init__(self, slots: int, devices: Sequence[str] = ()) -> None:
        self.devices = list(devices)
        self._free = list(range(slots))
        self._running: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}  # slot and process of each run

    def room(self) -> int:
        """Free slots."""
        return len(self._free)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Starts the jobs, each in the lowest free slot."""
        for job in jobs:
            slot, environment, where = self._free.pop(0), dict(os.environ), ""
            if self.devices:
                environment["CUDA_VISIBLE_DEVICES"] = self.devices[slot % len(self.devices)]
                where = f" on device {environment['CUDA_VISIBLE_DEVICES']}"
            self._running[job.run_id] = slot, start(job, where, environment)

    def poll(self) -> list[Ended]:
        """The jobs whose processes are gone."""
        ended = []
        for run_id, (slot, process) in list(self._running.items()):
            code = process.poll()
            if code is not None:
                del self._running[run_id]
                self._free = sorted([*self._free, slot])
                ended.append(Ended(run_id, code))
        return ended

    def stop(self) -> None:
        """Interrupts all jobs, more firmly if they do not listen, and waits for them."""
        processes = [process for _, process in self._running.values()]
        for which, seconds in GRACE:
            for process in processes:
                with suppress(ProcessLookupError):  # it has ended in this instant
                    if process.poll() is None:
                        os.killpg(process.pid, which)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and any(process.poll() is None for process in processes):
                time.sleep(0.05)
            if all(process.poll() is not None for process in processes):
                return
