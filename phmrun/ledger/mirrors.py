"""Mirrors of a run beside W&B, each through its own package and into the run's folder: nothing is sent anywhere.

A mirror is written whole from the run directory, which stays the source, and takes the place of the one before.

As a program (``python -m`` this module) it writes trackio's database from JSON on standard input: trackio takes its
folder (TRACKIO_DIR) when it is imported. Written is its database alone: nothing is served or sent.
"""

import calendar
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from phmrun.documents import flat
from phmrun.errors import PhmrunError, unknown
from phmrun.files import is_name
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.listing import score_value
from phmrun.ledger.run import Run, config_values

Figures = Sequence[tuple[int, float, dict[str, float]]]
"""Step, seconds since 1970 and figures, by their names."""
_MISSING = 3
"""The exit code of the program where trackio cannot be imported; the reason is on standard error."""


def write_mirror(run: Run, name: str) -> Path:
    """Replays the history, the scores and the config of a run for another program of :data:`MIRRORS`; its folder."""
    if name not in MIRRORS:
        raise unknown("mirror", name, MIRRORS, where="--to")
    folder = run.path / name
    fresh = run.path / f".{name}.{secrets.token_hex(4)}.tmp"  # MLflow remembers a store by its address
    try:
        MIRRORS[name](run, fresh, list(_figures(run)))
    except ImportError as error:
        raise PhmrunError(
            f"the mirror {name} needs a package that is not installed, or cannot be imported: {error}",
            where="--to",
            hint=f"pip install 'phmrun[{name}]'",
        ) from error
    else:
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _tensorboard(run: Run, folder: Path, figures: Figures) -> None:
    """Event files, as ``tensorboard --logdir`` reads them."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, moment, named in figures:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in named.items()]
        writer.add_event(Event(wall_time=moment, step=step, summary=Summary(value=values)))
    writer.close()


def _mlflow(run: Run, folder: Path, figures: Figures) -> None:
    """A store of files, as ``mlflow ui --backend-store-uri`` reads it; the experiment is the task's and the data's."""
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a store in the run's folder is what is wanted
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    # The store writes its own address into itself, so the folder is the last one already here.
    final = run.path / "mlflow"
    client = MlflowClient(tracking_uri=folder.absolute().as_uri())
    experiment = client.create_experiment(_title(run), artifact_location=(final / "artifacts").absolute().as_uri())
    made = client.create_run(experiment, run_name=run.id).info.run_id
    kept = _file_names({name for _, _, named in figures for name in named})
    for step, moment, named in figures:
        metrics = [Metric(name, value, round(1000 * moment), step) for name, value in named.items() if name in kept]
        client.log_batch(made, metrics=metrics)
    config = flat(config_values(run.config_path))
    settings = _file_names(config)
    params = [Param(key, str(value)[:500]) for key, value in config.items() if key in settings]
    for start in range(0, len(params), 100):
        client.log_batch(made, params=params[start : start + 100])
    client.set_terminated(made, "FINISHED" if run.status.state == "done" else "KILLED")


def _file_names(names: Iterable[str]) -> set[str]:
    """The names that MLflow takes, which keeps a file for each: none leads elsewhere, or is another's folder."""
    plain = {name for name in names if re.fullmatch(r"[\w. -][\w./ -]{,200}", name)}
    folders = {str(folder) for name in plain for folder in PurePosixPath(name).parents}
    return {name for name in plain - folders if all(is_name(part) and part[0] != "." for part in name.split("/"))}


def _trackio(run: Run, folder: Path, figures: Figures) -> None:
    """A database, as ``TRACKIO_DIR=… trackio show`` reads it; the project is the task's and the data's."""
    content = {
        "project": _title(run),
        "run": run.id,
        "metrics_list": [values for _, _, values in figures],
        "steps": [step for step, _, _ in figures],
        "timestamps": [datetime.fromtimestamp(moment, UTC).isoformat() for _, moment, _ in figures],
        "config": flat(config_values(run.config_path)),
    }
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(content, default=str),
        env={**os.environ, "TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        # The last line of a traceback is the exception with its message.
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        if done.returncode == _MISSING:
            raise ImportError(reason, name="trackio")
        raise PhmrunError(f"trackio could not write the mirror: {reason}", where=str(run.path / "trackio"))


def main() -> int:
    """Logs what is on standard input; the exit code."""
    try:
        from trackio.sqlite_storage import SQLiteStorage
    except ImportError as error:
        sys.stderr.write(str(error))
        return _MISSING
    SQLiteStorage.bulk_log(**json.load(sys.stdin))
    return 0


MIRRORS: dict[str, Callable[[Run, Path, Figures], None]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "trackio": _trackio,
}
"""What writes a mirror, by the name of its package."""


def _figures(run: Run) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Those of every row of the history, and at the end the scores."""
    started = run.status.started
    began = calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ")) if started else 0
    step, seconds = 0, 0.0
    for row in map(in_shown_units, run.history.rows()):
        step, seconds = int(row.get("step", step)), float(row.get("time", seconds))
        figures = {key: float(value) for key, value in row.items() if "/" in key and isinstance(value, int | float)}
        if figures:
            yield step, began + seconds, figures
    scores = {name: value for name, score in run.metrics().items() if (value := score_value(score)) is not None}
    if scores:
        yield step, began + seconds, scores


def _title(run: Run) -> str:
    """Title that runs of one task and data share, without characters that a path could be made of."""
    about = run.status.about
    return re.sub(r"[^A-Za-z0-9_-]+", "-", f"phmrun-{about.get('task')}-{about.get('data')}")[:200]


if __name__ == "__main__":
    sys.exit(main())
