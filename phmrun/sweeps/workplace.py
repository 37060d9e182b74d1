"""Where a sweep keeps what is its own, beside the run directories: ``.sweeps/NAME/``. Imports no torch."""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from phmrun.config import to_yaml
from phmrun.files import write_text
from phmrun.ledger import Lock, Run
from phmrun.ledger.lock import Holder, living_holder
from phmrun.ledger.run import directory_of
from phmrun.sweeps.cell_status import CLAIM
from phmrun.sweeps.executors import Job
from phmrun.sweeps.plan import Cell

FOLDER = ".sweeps"
PROGRAM = (sys.executable, "-P", "-m", "phmrun")
"""This very phmrun, whatever folder of that name the runs are started in."""
LOG = "output.log"  # in the run directory: all that the process of a run has written, also before and after training


class Workplace:
    """The folder of one sweep; everything in it can be made again.

    Every run loads the plug-ins; ``program`` is what is called with the arguments of ``phmrun``.
    """

    def __init__(
        self, runs_dir: Path, name: str, plugins: Sequence[str] = (), program: Sequence[str] = PROGRAM
    ) -> None:
        self.runs_dir = runs_dir
        self.path = runs_dir / FOLDER / name
        self.plugins = plugins
        self.program = program

    @property
    def slurm(self) -> Path:
        """What was handed over to SLURM."""
        return self.path / "slurm"

    def job(self, cell: Cell, threads: int = 0) -> Job:
        """Writes the configuration of a cell that can be run, makes its run directory, and says how it is run.

        ``threads`` are those for arithmetic where the cell's configuration leaves them open.
        """
        if cell.config is None or cell.run_id is None:
            raise ValueError(f"the cell {cell.label} cannot be run")
        config = self.path / "cells" / f"{cell.run_id}.yaml"
        text = to_yaml(cell.config, cell.origin)
        write_text(config, text)
        Run.create(self.runs_dir, cell.run_id, text)
        command = [*self.program, "train", cell.config.task, "--config", str(config), "--runs-dir", str(self.runs_dir)]
        for plugin in self.plugins:
            command += ["--plugin", plugin]
        if threads and not cell.config.hardware.threads:
            command += ["--threads", str(threads)]
        return Job(cell.run_id, tuple(command), self.log(cell.run_id))

    def log(self, run_id: str) -> Path:
        """What the process of a run has written."""
        return directory_of(self.runs_dir, run_id) / LOG

    def claim(self, cell: Cell) -> Lock:
        """The lock of the planner that starts a cell; its run directory is made if need be."""
        path = directory_of(self.runs_dir, str(cell.run_id))
        path.mkdir(parents=True, exist_ok=True)
        return Lock(path / CLAIM, f"the run {cell.run_id}")

    def registration(self) -> Lock:
        """The lock that makes the planner in this process known to ``phmrun sweep cancel``."""
        folder = self.path / "planners"
        folder.mkdir(parents=True, exist_ok=True)
        return Lock(folder / f"{socket.gethostname()}-{os.getpid()}", "this planner's own registration")

    def planners(self) -> list[Holder]:
        """The living planners of this sweep, on any machine."""
        holders = [living_holder(path) for path in sorted((self.path / "planners").glob("*"))]
        return [holder for holder in holders if holder is not None]


def last_lines(log: Path, count: int = 5) -> list[str]:
    """The last lines that a run's process has written, blank ones left out; none without a log."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, handle.seek(0, os.SEEK_END) - 64 * 1024))
            text = handle.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]
