"""A planner of its own process: ``toy_planner.py SWEEP RUNS_DIR SLOTS [retry]``, with the stand-in for training."""

import sys
from pathlib import Path

import toy_experiment

from phmrun.cli.sweep import to_run
from phmrun.config import Task
from phmrun.registry import TASKS
from phmrun.sweeps import Cell, Plan, load_sweep, plan
from phmrun.sweeps import scheduler as scheduler_module
from phmrun.sweeps.cell_status import CellState, survey
from phmrun.sweeps.executors.local import LocalExecutor
from phmrun.sweeps.scheduler import Event, Scheduler, Workplace
from phmrun.sweeps.view import said

PROGRAM = (sys.executable, str(Path(__file__).with_name("fake_phmrun.py")))


def planned(sweep: str) -> Plan:
    for name, schema in (("toy", "ToyExperiment"), ("other", "OtherExperiment")):
        TASKS._registered[name] = Task(name, "A toy.", f"toy_experiment:{schema}", "", "", "", "")
    return plan(load_sweep(sweep), toy_experiment.inspect, toy_experiment.options_of)


def runs_of(plan: Plan) -> dict[str, Cell]:
    """Cells that can be run, by run id; of several with one id, the first."""
    by_id: dict[str, Cell] = {}
    for cell in plan.cells:
        if cell.run_id is not None:
            by_id.setdefault(cell.run_id, cell)
    return by_id


def main(sweep: str, runs_dir: str, slots: str, retry: str = "") -> int:
    created = planned(sweep)
    workplace = Workplace(Path(runs_dir), created.sweep.name, program=PROGRAM)
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
