"""Mirrors of a run for TensorBoard, MLflow and trackio.

A mirror is a folder in the run directory, written by the program's own package from the run's files. It replaces the
previous mirror of that name. Nothing is sent to a server.

Run as a program (``python -m phmrun.ledger.mirrors``), this module writes trackio's database from JSON on standard
input, because trackio reads its folder (``TRACKIO_DIR``) at import.
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
from phmrun.ledger.recorded_config import config_values
from phmrun.ledger.recorded_run import score_value
from phmrun.ledger.run import Run

Figures = Sequence[tuple[int, float, dict[str, float]]]
"""Triples of step, Unix time in seconds, and figures by name."""
_MISSING = 3
"""Exit code of the program if trackio cannot be imported; the reason is on standard error."""


def write_mirror(run: Run, name: str) -> Path:
    """Write a mirror of a run for another program.

    It has history, scores and config. ``name`` is "tensorboard", "mlflow" or "trackio". It replaces the run's folder of
    that name; after an error of writing, the previous mirror is kept.

    Returns:
        Folder of the mirror.

    Raises:
        PhmrunError: (exit 2) The name is unknown, the program's package cannot be imported, or trackio fails to write.
            (exit 3) A symbolic link leads out of the run.
    """
    if name not in MIRRORS:
        raise unknown("mirror", name, MIRRORS, where="--to")
    folder = run.own_folder(name)
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
    """Write event files for ``tensorboard --logdir`` into ``folder``.

    They have history and scores, not the config.

    Raises:
        ImportError: tensorboard cannot be imported.
    """
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, moment, named in figures:
        values = [Summary.Value(tag=name, simple_value=value) for name, value in named.items()]
        writer.add_event(Event(wall_time=moment, step=step, summary=Summary(value=values)))
    writer.close()


def _mlflow(run: Run, folder: Path, figures: Figures) -> None:
    """Write a file store for ``mlflow ui --backend-store-uri`` into ``folder``.

    Runs of one task and data share an experiment. Names that MLflow does not accept are left out. Config values are cut
    to 500 characters. The run is FINISHED if it is done, else KILLED. Sets environment variables of MLflow, and leaves
    them set.

    Raises:
        ImportError: mlflow cannot be imported.
    """
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    # The store contains its own address, so the final folder is named here.
    final = run.path / "mlflow"
    client = MlflowClient(tracking_uri=folder.absolute().as_uri())
    experiment = client.create_experiment(_title(run), artifact_location=(final / "artifacts").absolute().as_uri())
    run_id = client.create_run(experiment, run_name=run.id).info.run_id
    kept = _file_names({name for _, _, named in figures for name in named})
    for step, moment, named in figures:
        metrics = [Metric(name, value, round(1000 * moment), step) for name, value in named.items() if name in kept]
        client.log_batch(run_id, metrics=metrics)
    config = flat(config_values(run.config_path))
    settings = _file_names(config)
    params = [Param(key, str(value)[:500]) for key, value in config.items() if key in settings]
    for start in range(0, len(params), 100):
        client.log_batch(run_id, params=params[start : start + 100])
    client.set_terminated(run_id, "FINISHED" if run.status.state == "done" else "KILLED")


def _file_names(names: Iterable[str]) -> set[str]:
    """Return the names that MLflow accepts as file names.

    They have at most 201 letters, digits, spaces and ``_-./``, and do not begin with a slash. Left out are names that
    lead out of the store, and those with a hidden part. So are those that are a folder of another name (``a`` beside
    ``a/b``).
    """
    plain = {name for name in names if re.fullmatch(r"[\w. -][\w./ -]{,200}", name)}
    folders = {str(folder) for name in plain for folder in PurePosixPath(name).parents}
    return {name for name in plain - folders if all(is_name(part) and part[0] != "." for part in name.split("/"))}


def _trackio(run: Run, folder: Path, figures: Figures) -> None:
    """Write a database for ``TRACKIO_DIR=… trackio show`` into ``folder``.

    A subprocess does it. Runs of one task and data share a project.

    Raises:
        ImportError: trackio cannot be imported.
        PhmrunError: (exit 2) trackio fails to write.
    """
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
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if done.returncode == _MISSING:
            raise ImportError(reason, name="trackio")
        raise PhmrunError(f"trackio could not write the mirror: {reason}", where=str(run.path / "trackio"))


def main() -> int:
    """Write JSON from standard input into trackio's database.

    Returns:
        Exit code: 0, or 3 if trackio cannot be imported.
    """
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
"""Writers of mirrors by name of the package."""


def _figures(run: Run) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Yield (step, Unix time in seconds, figures by name).

    There is one for each row of the history, then one for the scores. Figures are the numbers whose keys contain a
    slash, with shares in percent; rows without any are skipped. The scores have the last row's step and time. Time
    begins at 0 if the run's start is unknown.
    """
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
    """Return "phmrun-<task>-<data>" cut to 200 characters.

    Runs of characters other than letters, digits, hyphens and underscores become a hyphen.
    """
    about = run.status.about
    return re.sub(r"[^A-Za-z0-9_-]+", "-", f"phmrun-{about.get('task')}-{about.get('data')}")[:200]


if __name__ == "__main__":
    sys.exit(main())
