"""A planner of its own process: ``toy_planner.py SWEEP RUNS_DIR SLOTS [retry]``, with the stand-in for training."""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import fake_phmrun
import toy_experiment

from phmrun.config import Task
from phmrun.registry import TASKS
from phmrun.sweeps import executors
from phmrun.sweeps import scheduler as scheduler_module
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.cell_status import CellState, CellStatus, distinct, survey, to_run
from phmrun.sweeps.executors import LocalExecutor
from phmrun.sweeps.file import load_sweep
from phmrun.sweeps.plan import Plan, plan
from phmrun.sweeps.scheduler import Event, Scheduler, Workplace
from phmrun.sweeps.view import said

PROGRAM = (sys.executable, str(Path(__file__).with_name("fake_phmrun.py")))


def planned(sweep: str) -> Plan:
    for name, schema in (("toy", "ToyExperiment"), ("other", "OtherExperiment")):
        TASKS._registered[name] = Task(name, "A toy.", f"toy_experiment:{schema}", "", "", "", "")
    return plan(load_sweep(sweep), toy_experiment.inspect, toy_experiment.options_of)


def runs_of(plan: Plan) -> dict[str, Cell]:
    """Cells that can be run, by run id; of several with one id, the first."""
    statuses = distinct(CellStatus(cell, CellState.MISSING) for cell in plan.cells)
    return {str(status.cell.run_id): status.cell for status in statuses}


class Fork:
    """Stand-in for ``subprocess.Popen``: a fork of this process, which has imported what the run needs."""

    def __init__(self, command: Sequence[str], log: BinaryIO, environment: Mapping[str, str] | None = None) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            os.setsid()
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os.closerange(3, 256)
            os.environ.update(environment or {})
            sys.argv = list(command[1:])
            code = fake_phmrun.main()
        except BaseException:  # noqa: BLE001  the fork must not go on as a planner
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode


def main(sweep: str, runs_dir: str, slots: str, retry: str = "") -> int:
    created = planned(sweep)
    workplace = Workplace(Path(runs_dir), created.sweep.name, program=PROGRAM)
    executors.start = Fork
    scheduler_module.LOOK = 0.1
    scheduler_module.POLL = 0.02
    bad = []

    def watch(event: Event | None) -> None:
        if event is not None:
            print(said(event), *event.log, sep="\n  ", flush=True)
            if event.code and event.status.state is not CellState.DONE:
                bad.append(event)

    statuses = to_run(survey(created, workplace.runs_dir), bool(retry))
    Scheduler(statuses, workplace, LocalExecutor(int(slots)), retry_failed=bool(retry), watch=watch).run()
    return 5 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
