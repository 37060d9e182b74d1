"""Everything that a run directory says about its run, gathered for a reader; what is damaged is said, not raised."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phmrun.errors import PhmrunError
from phmrun.files import read_regular
from phmrun.ledger.lock import LOCK, Holder
from phmrun.ledger.run import Run
from phmrun.ledger.status import Status, holder_of

_CONTENTS = {
    "README.md": "this run described",
    "config.yaml": "the resolved config",
    "status.json": "what the run is doing",
    "metrics.json": "scores with their signatures",
    "parameters.json": "parameter counts",
    "data.json": "files and checksums of the data",
    "environment.json": "what it was made on, process by process",
    "bench.json": "its speed, by `phmrun bench run` and `phmrun bench table`",
    "history.jsonl": "the course of training",
    "train.log": "what training said",
    "vocabulary": "the vocabulary",
    "checkpoints": "weights and training states",
    "predictions": "outputs of the model",
    "wandb": "the W&B mirror",
    LOCK: "the process that holds the run",
}


@dataclass(frozen=True)
class Entry:
    """A file or a directory of a run.

    Attributes:
        name: Its name; a directory's ends with a slash.
        size: Bytes, for a directory those of all files below.
        meaning: What it is; empty for what phmrun does not know.
    """

    name: str
    size: int
    meaning: str


@dataclass(frozen=True)
class Description:
    """What there is to say of a run.

    Attributes:
        id: The run's name.
        path: The run directory.
        status: What the run is doing; ``None`` if that is damaged.
        holder: The living process that holds it.
        config: The text of the config.
        metrics: The scores by name.
        parameters: The parameter counts.
        history: The rows of the course of training.
        environment: An entry for each process that trained a part of it.
        samples: Sample outputs as ``columns`` and ``rows``; empty without any.
        entries: The files.
        damage: What could not be read, and why.
    """

    id: str
    path: Path
    status: Status | None
    holder: Holder | None
    config: str
    metrics: dict[str, Any]
    parameters: dict[str, Any]
    history: list[dict[str, Any]]
    environment: list[dict[str, Any]]
    samples: dict[str, Any]
    entries: list[Entry]
    damage: list[str] = field(default_factory=list)


def describe(run: Run) -> Description:
    """Reads the whole directory."""
    damage: list[str] = []

    def readable(read: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return read()
        except (PhmrunError, OSError, UnicodeDecodeError) as error:
            damage.append(" ".join(str(error).split()))
            return otherwise

    return Description(
        id=run.id,
        path=run.path,
        status=readable(lambda: run.status, None),
        holder=holder_of(run.path),
        config=readable(lambda: read_regular(run.config_path).decode("utf-8"), ""),
        metrics=readable(run.metrics, {}),
        parameters=readable(run.parameters, {}),
        history=readable(run.history.read, []),
        environment=readable(run.environment, []),
        samples=readable(lambda: _table(run.samples()), {}),
        entries=list(_entries(run.path)),
        damage=damage,
    )


def _table(samples: dict[str, Any]) -> dict[str, Any]:
    """The samples, if they are a table; what is none is left out."""
    columns, rows = samples.get("columns"), samples.get("rows")
    if isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return {"columns": columns, "rows": rows}
    return {}


def _entries(path: Path) -> Iterator[Entry]:
    """The files of the directory, those that phmrun knows first."""
    order = list(_CONTENTS)
    found = [child for child in path.iterdir() if not child.name.startswith(".")]
    for child in sorted(found, key=lambda child: (_place(child.name, order), child.name)):
        name = f"{child.name}/" if child.is_dir() else child.name
        yield Entry(name, _size(child), _CONTENTS.get(child.name, ""))


def _place(name: str, order: list[str]) -> int:
    return order.index(name) if name in order else len(order)


def _size(path: Path) -> int:
    """Bytes of a file, or of all files below a directory; one that vanishes meanwhile has none."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if not file.is_symlink()]
    size = 0
    for file in files:
        try:
            size += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return size
