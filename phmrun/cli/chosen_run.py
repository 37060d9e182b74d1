"""The run that a verb works on, named on standard error."""

from pathlib import Path
from typing import TYPE_CHECKING

from phmrun.progress import note

if TYPE_CHECKING:
    from phmrun.ledger import Run


def choose_run(runs_dir: Path, reference: str) -> "Run":
    """Return the run that the user names.

    Its name and state are printed on standard error. For "latest", running runs that are newer are named, too.

    Raises:
        PhmrunError: No run fits, or more than one (exit 2); its status is damaged (exit 3).
    """
    from phmrun.ledger import Run
    from phmrun.ledger.directory import LATEST, newer_running

    run = Run.find(runs_dir, reference)
    running = newer_running(run.path) if reference == LATEST else []
    newer = f"; newer, but still running: {', '.join(running)}" if running else ""
    note(f"run {run.id} ({run.status.state}){newer}")
    return run
