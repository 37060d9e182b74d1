"""A run's whole history as one W&B run, whatever happened while it was trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.ledger.run import Run
from phmrun.ledger.status import State, config_values
from phmrun.ledger.wandb_mirror import Mirror, labels_path, wandb_mode

SAMPLES = "samples"
"""The name of the table of sample outputs in W&B."""


@dataclass(frozen=True)
class Synced:
    """What a replay came to.

    Attributes:
        run_id: The run, and the id of the W&B run.
        mode: ``online`` or ``offline``.
        rows: Rows of the history that were replayed.
        directory: The W&B run directory that was written; after an offline replay, `wandb sync` uploads it.
        url: The page on the server, if it was online.
    """

    run_id: str
    mode: str
    rows: int
    directory: Path
    url: str | None


def sync(run: Run, mode: str = "online", *, project: str | None = None, entity: str | None = None) -> Synced:
    """Replays config, history, scores, parameter counts and samples of a run as one W&B run.

    The W&B run's id is the run's name, so that a second replay takes the place of the first. Nothing in the run
    directory is deleted; the segments that training wrote are left where they are.

    Args:
        run: The run; it may still be training, unless it is mirrored online at this moment.
        mode: ``online`` uploads; ``offline`` writes one complete W&B run directory, to be uploaded from elsewhere.
        project: The W&B project; by default the one it was trained with.
        entity: The W&B user or team; by default the one it was trained with.

    Raises:
        PhmrunError: The run directory is damaged, W&B cannot be used, or the mode is ``disabled``.
    """
    mode = wandb_mode(mode)
    if mode == "disabled":
        raise PhmrunError("nothing can be synced while W&B is disabled", hint="Say --online or --offline.")
    labels = _labels(run)
    status = run.status
    if mode == "online" and status.state is State.RUNNING and labels.pop("mode", None) == "online":
        raise PhmrunError(
            f"the run {run.id} is being mirrored online while it trains", hint="Sync it when it has ended."
        )
    labels.pop("mode", None)
    labels |= {key: value for key, value in (("project", project), ("entity", entity)) if value}
    rows, scores, samples = run.history.read(), run.metrics(), run.samples()
    config = config_values(run.config_path) if run.config_path.exists() else {}
    mirror = Mirror(run, mode, config=config, whole=True, **labels)
    directory, url = mirror.directory, mirror.url
    if directory is None:
        raise PhmrunError("W&B gave no directory", hint="Try --offline.")
    for row in rows:
        mirror.log(row)
    if samples:
        mirror.table(SAMPLES, samples["columns"], samples["rows"])
    mirror.summary({"state": status.state.value, **_flat(scores), **_flat(run.parameters(), "parameters/")})
    mirror.finish(exit_code=1 if status.state is State.FAILED else 0)
    return Synced(run.id, mode, len(rows), directory, url)


def _labels(run: Run) -> dict[str, Any]:
    """Project, group, tags of the run: those it was mirrored with, else what can be told from its status."""
    try:
        return dict(parse_json(labels_path(run).read_bytes()))
    except (FileNotFoundError, ValueError):
        about = run.status.about
        return {"project": "phmrun", "job_type": about.get("task"), "tags": str(about.get("layer", "")).split()}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values under joined names; the ``value`` of a score stands under the score's own name."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = prefix.rstrip("/") if key == "value" and prefix else f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{name}/")
        else:
            flat[name] = value
    return flat
