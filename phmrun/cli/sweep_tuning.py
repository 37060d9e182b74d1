"""The trials of a sweep with ``tune:``. Imported when a verb runs."""

from pathlib import Path

from phmrun.cli import console, sweep_work
from phmrun.cli.sweep_search import maker
from phmrun.errors import ExitCode, PhmrunError
from phmrun.progress import note
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import CellState
from phmrun.sweeps.tuning import Tuned, settled, with_choices


def rows_of(made: Plan, runs_dir: Path) -> list[Tuned]:
    """The rows of a sweep with their trials."""
    return settled(made, runs_dir, made.sweep.file.tune, maker(made, runs_dir))


def chosen(made: Plan, runs_dir: Path) -> Plan:
    """The plan with the values of the trials that are over; the same plan where the sweep tunes nothing."""
    if not made.sweep.file.tune:
        return made
    return with_choices(made, rows_of(made, runs_dir), maker(made, runs_dir))


def tuned(made: Plan, runs_dir: Path, jobs: int | None, threads: int, deadline: float | None = None) -> Plan | None:
    """Runs the trials that are left, and returns the plan with the values that were chosen; ``None``: no time is left.

    Raises:
        PhmrunError: (exit 5) A trial was stopped before its end, or no trial of a row has a score.
    """
    if not made.sweep.file.tune:
        return made
    make = maker(made)
    place = sweep_work.workplace(made, runs_dir)
    executor = sweep_work.local_executor(made, jobs)
    slots = executor.room()
    share = threads or sweep_work.threads_of_a_run(slots)
    while True:
        rows = settled(made, runs_dir, made.sweep.file.tune, make)
        statuses = [status for row in rows for _, status in row.trials]
        left = [s for s in statuses if s.state not in (CellState.DONE, CellState.FAILED, CellState.INVALID)]
        if not left:
            break
        keys = ", ".join(dict.fromkeys(key for row in rows for key in row.space))
        note(f"{len(left)} of {len(statuses)} trials of {keys} are left, {len(rows[0].trials)} for each row")
        bad = sweep_work.carry_out(
            statuses, place, executor, slots=slots, threads=share, retry_failed=False, limit=None, deadline=deadline
        )
        if sweep_work.is_over(deadline):
            return None
        if any(status.cell.run_id in bad for status in left):
            raise PhmrunError(
                "a trial did not come to its end", code=ExitCode.SWEEP, hint="The same command goes on with it."
            )
    for row in rows:
        if row.values is None:
            raise PhmrunError(f"no trial of {row.label} has a score", code=ExitCode.SWEEP)
        edge = f"; at the edge of the space: {', '.join(row.at_edge)}" if row.at_edge else ""
        said = ", ".join(f"{key}={value}" for key, value in row.values.items())
        console.stderr().print(f"{row.label}: {said} of {len(row.trials)} trials{edge}", markup=False, soft_wrap=True)
    return with_choices(made, rows, make)
