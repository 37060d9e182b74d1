"""Mirror of a run for TensorBoard: event files in the run directory, written from its history and scores."""

import calendar
import time
from pathlib import Path

from phmrun.errors import PhmrunError
from phmrun.files import replacing_directory
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.run import Run
from phmrun.ledger.scores import score_value


def write_tensorboard(run: Run) -> Path:
    """Write history and scores of a run for TensorBoard, and return the folder.

    Values are those of the history whose keys contain a slash, with shares in percent. Scores have the step and time
    of the last row. The folder replaces an earlier one. Nothing is sent anywhere.

    Raises:
        PhmrunError: (exit 2) The package tensorboard is missing. (exit 3) A symbolic link leads out of the run.
    """
    folder = run.access.folder("tensorboard")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        hint = "pip install 'phmrun[tensorboard]'"
        raise PhmrunError(f"tensorboard is not installed: {error}", where="--to", hint=hint) from error
    started = run.status.started
    began = calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")) if started else 0
    step, moment = 0, float(began)
    with replacing_directory(folder) as fresh, SummaryWriter(str(fresh)) as writer:
        for row in map(in_shown_units, run.history.rows()):
            step, moment = int(row.get("step", step)), began + float(row.get("time", moment - began))
            for key, value in row.items():
                if "/" in key and isinstance(value, int | float):
                    writer.add_scalar(key, value, step, moment)
        for key, score in run.metrics().items():
            if (value := score_value(score)) is not None:
                writer.add_scalar(key, value, step, moment)
    return folder
