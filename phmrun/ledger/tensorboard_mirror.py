"""Mirror of a run for TensorBoard: event files in the run directory, written from its history and scores."""

from datetime import datetime
from pathlib import Path

from phmrun.files import replacing_directory
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.run import Run
from phmrun.ledger.scores import score_value
from phmrun.registry import extra_package


def write_tensorboard(run: Run) -> Path:
    """Write history and scores of a run for TensorBoard, and return the folder.

    Values are those of the history whose keys contain a slash, with shares in percent. Scores have the step and time
    of the last row. The folder replaces an earlier one. Nothing is sent anywhere.

    Raises:
        PhmrunError: (exit 2) The package tensorboard is missing. (exit 3) A symbolic link leads out of the run.
    """
    folder = run.access.folder("tensorboard")
    tensorboard, started = extra_package("torch.utils.tensorboard", "tensorboard"), run.status.started
    began = datetime.fromisoformat(started).timestamp() if started else 0.0
    step, seconds = 0, 0.0
    with replacing_directory(folder) as fresh, tensorboard.SummaryWriter(str(fresh)) as writer:
        for row in map(in_shown_units, run.history.rows()):
            step, seconds = row["step"], row.get("time", seconds)
            for key, value in row.items():
                if "/" in key and isinstance(value, int | float):
                    writer.add_scalar(key, value, step, began + seconds)
        for key, score in run.metrics().items():
            if (value := score_value(score)) is not None:
                writer.add_scalar(key, value, step, began + seconds)
    return folder
