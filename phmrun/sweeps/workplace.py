"""A sweep's folder beside the run directories: ``.sweeps/NAME/``.

Imports no torch.
"""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from phmrun.config import to_yaml
from phmrun.files import write_text
from phmrun.ledger import Lock, Run
from phmrun.ledger.directory import directory_of
from phmrun.ledger.lock import Holder, living_holder
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.cell_status import CLAIM, LOG
from phmrun.sweeps.executors import Job

FOLDER = ".sweeps"
PROGRAM = (sys.executable, "-P", "-m", "phmrun")
"""Command of this phmrun; ``-P`` ignores a folder called ``phmrun`` in the working directory."""


class Workplace:
    """Folder of one sweep.

    All its files can be written again.

    Args:
        runs_dir: Directory of runs.
        name: Name of the sweep.
        plugins: Plug-in files that every run loads.
        program: Command that is called with the arguments of ``phmrun``.
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
        """Folder of the SLURM scripts."""
        return self.path / "slurm"

    def job(self, cell: Cell, threads: int = 0) -> Job:
        """Return the job of a cell.

        Its configuration is written into the sweep's folder, and its run created. An existing run is left unchanged,
        but a missing config or status is written into it. The command is ``phmrun train`` with the configuration and
        the sweep's plug-ins.

        Args:
            cell: A cell that can be run.
            threads: CPU threads if the cell's configuration sets none; 0: none are set.

        Raises:
            ValueError: The cell cannot be run.
            PhmrunError: (exit 3) The run directory cannot be created.
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
        """Return the path of the file with the output of a run's process.

        It is ``output.log`` in the run's directory. It may not exist.
        """
        return directory_of(self.runs_dir, run_id) / LOG

    def claim(self, cell: Cell) -> Lock:
        """Return the planner's lock on a cell.

        It is the file ``.claim`` in the run directory, which is created if missing. The lock is not acquired yet.
        """
        path = directory_of(self.runs_dir, str(cell.run_id))
        path.mkdir(parents=True, exist_ok=True)
        return Lock(path / CLAIM, f"the run {cell.run_id}")

    def registration(self) -> Lock:
        """Return the lock that registers this planner.

        ``phmrun sweep --cancel`` reads it. Its file is ``planners/HOST-PID`` in the sweep's folder; missing folders are
        created. It is not acquired yet.
        """
        folder = self.path / "planners"
        folder.mkdir(parents=True, exist_ok=True)
        return Lock(folder / f"{socket.gethostname()}-{os.getpid()}", "this planner's own registration")

    def planners(self) -> list[Holder]:
        """Return the live planners of this sweep, on any machine.

        They are in the order of ``HOST-PID`` as text. Registrations without a live holder are left out.
        """
        holders = [living_holder(path) for path in sorted((self.path / "planners").glob("*"))]
        return [holder for holder in holders if holder is not None]
