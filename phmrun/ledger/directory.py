"""Directories of runs: the names of their files, and finding one by a reference."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json, parse_yaml
from phmrun.errors import PhmrunError, data_error, nearest
from phmrun.files import is_name, read_regular, read_text
from phmrun.ledger.status import State, Status, as_found, reason_of

CONFIG, STATUS, METRICS, BENCH = "config.yaml", "status.json", "metrics.json", "bench.json"
DATA, ENVIRONMENT, HISTORY, PARAMETERS = "data.json", "environment.json", "history.jsonl", "parameters.json"
MANIFEST = "manifest.json"
LATEST = "latest"
RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,240}-[0-9a-f]{12}")
"""Pattern of run ids."""


def directory_of_runs(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the directory of runs: the given one, else ``PHMRUN_RUNS``, else ``runs``."""
    return Path(given or os.environ.get("PHMRUN_RUNS") or "runs")


def directory_of(runs_dir: Path, run_id: str) -> Path:
    """Return the directory of a run id.

    Raises:
        PhmrunError: (exit 3) The id is not a valid name, or leads out of ``runs_dir``.
    """
    if not is_name(run_id):
        raise data_error(f"{run_id!r:.80} is not a valid run id", runs_dir)
    return runs_dir / run_id


def is_run(path: Path) -> bool:
    """True if a directory is a run.

    It has a status, or a config and either a manifest or a name that ends with a hyphen and twelve hexadecimal digits.
    """
    named = re.compile(r".+-[0-9a-f]{12}").fullmatch
    status, config, manifest = (os.path.lexists(path / name) for name in (STATUS, CONFIG, MANIFEST))
    return status or (config and (manifest or named(path.resolve().name) is not None))


def find(runs_dir: Path, reference: str, *, skip: Callable[[Path], bool] = lambda path: False) -> Path:
    """Return the directory of a run by reference.

    A path (in ``runs_dir``, then in the working directory) goes before "latest", that before an id's beginning, and
    that before digits. An empty reference matches no run. Hidden directories are not searched.

    Args:
        runs_dir: Directory of runs.
        reference: Run id, its beginning, the first 3 to 12 of its last twelve digits, the path of a run directory,
            or "latest" for the run that ended last, done or interrupted.
        skip: True for the directory of a run that only its whole id, or its path, may name.

    Raises:
        PhmrunError: (exit 2) No run matches, several do, or none has ended for "latest".
    """
    for path in (runs_dir / reference, Path(reference)):
        # An empty reference would match the directory of runs itself, and below, every run.
        if reference and is_run(path):
            return path
    paths = runs_dir.iterdir() if runs_dir.is_dir() else ()
    names = sorted(path.name for path in paths if not path.name.startswith(".") and is_run(path) and not skip(path))
    if reference == LATEST and names:
        return latest([runs_dir / name for name in names])
    fitting = [name for name in names if name.startswith(reference)]
    if not fitting and len(reference) >= 3:
        fitting = [name for name in names if name.rpartition("-")[2].startswith(reference)]
    if len(fitting) == 1 and reference:
        return runs_dir / fitting[0]
    if fitting and reference:
        raise PhmrunError(f"{len(fitting)} runs begin with {reference!r}", valid=fitting[:10])
    close = " or ".join(nearest(reference, [*names, LATEST] if names else []))
    hint = f"Did you mean {close}?" if close else "`phmrun runs list` shows all runs of a directory."
    raise PhmrunError(f"there is no run {reference!r} in {runs_dir}", hint=hint)


def check_links(path: Path) -> None:
    """Check that no entry of a run directory is a symbolic link out of it.

    A missing directory passes.

    Raises:
        PhmrunError: (exit 3) An entry is one.
    """
    place = path.resolve()
    for entry in path.iterdir() if place.is_dir() else ():
        if entry.is_symlink() and not entry.resolve().is_relative_to(place):
            what, hint = "this symbolic link leads out of the run", "Put the files themselves there."
            raise data_error(what, entry, hint)


def latest(paths: Sequence[Path]) -> Path:
    """Return the run directory that ended last, done or interrupted.

    Directories without a readable status are skipped, as are failed, queued and running runs. Ties are broken by the
    time of the status file's last change.

    Raises:
        PhmrunError: (exit 2) No run is done or interrupted.
    """
    statuses = [(path, status) for path in paths if (status := _effective_status(path)) is not None]
    ended = [pair for pair in statuses if pair[1].state in (State.DONE, State.INTERRUPTED)]
    if not ended:
        names = [f"{path.name} ({status.state})" for path, status in statuses]
        raise PhmrunError("no run is done or interrupted yet", where=LATEST, valid=names[:10])
    # a status has times in whole seconds, so ties are broken by the file's time
    return max(ended, key=lambda pair: (pair[1].ended or "", (pair[0] / STATUS).stat().st_mtime))[0]


def _effective_status(path: Path) -> Status | None:
    """Return the effective status of a run directory.

    The result is ``None`` if it is missing or damaged.
    """
    try:
        return as_found(Status.from_json(parse_json(read_regular(path / STATUS))), path)
    except (OSError, ValueError, TypeError, PhmrunError):
        return None


def entries(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of each entry of a run directory, sorted; a directory's name ends with a slash.

    Hidden entries and symbolic links are left out. A file that vanishes during the reading counts 0 bytes.
    """
    for child in sorted(child for child in path.iterdir() if not child.name.startswith(".")):
        size = 0
        for file in [child] if child.is_file() else [path for path in child.rglob("*") if not path.is_symlink()]:
            with suppress(FileNotFoundError):
                size += file.stat().st_size if file.is_file() else 0
        yield f"{child.name}/" if child.is_dir() else child.name, size


PLAIN = "dense"
BUDGET = "budget"  # option of structures whose other numbers may be 0: as large as it allows


def about_config(config_yaml: str) -> dict[str, Any]:
    """Return task, data, layer, network and seed of a resolved config.

    Keys: "task", "data" (its name), "layer", "network" and "seed". Missing ones are left out; a damaged config gives an
    empty dictionary.
    """
    try:
        config = parse_yaml(config_yaml, "config.yaml")
    except PhmrunError:
        config = None
    if not isinstance(config, Mapping):
        return {}
    data = config.get("data")
    facts = {
        "task": config.get("task"),
        "data": data.get("name") if isinstance(data, Mapping) else data,
        "layer": layer_label(config.get("layer")),
        "network": network_label(config),
        "seed": config.get("seed"),
    }
    return {key: value for key, value in facts.items() if value is not None}


def config_values(path: Path) -> dict[str, Any]:
    """Return the values of a ``config.yaml``.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, or is not a mapping in valid YAML.
    """
    try:
        values = parse_yaml(read_text(path), str(path))
    except (OSError, UnicodeDecodeError, PhmrunError) as error:
        why, where = (error.what, error.where) if isinstance(error, PhmrunError) else (reason_of(error), str(path))
        raise data_error(f"the configuration cannot be read: {why}", where) from error
    if not isinstance(values, dict):
        raise data_error("the configuration is not a mapping of keys to values", path)
    return values


def layer_label(layer: Any, *, words: bool = False) -> str | None:
    """Return the label of a weight structure: ``phm n=8``.

    Options that are numbers are named; others, and truth values, only with ``words``.

    Args:
        layer: Section of a config, or the name of a structure.
        words: Name all options: ``phm n=8 freeze=a``. Meant for options set by the user, not for resolved configs.

    Returns:
        The label; the name alone if ``layer`` is a name; ``None`` if ``layer`` is empty and not a section. A section
        without a structure is ``dense``. Without ``words``, a number before ``budget`` that is 0 is left out, and the
        budget that it is chosen for is named: ``low-rank budget=1/4``; of a structure around another, that one with
        its options alone: ``added low-rank rank=4``.
    """
    if not isinstance(layer, Mapping):
        return str(layer) if layer else None
    options = {key: value for key, value in layer.items() if key != "structure"}
    if not words:
        place = list(options).index(BUDGET) if BUDGET in options else 0
        chosen = [key for key in list(options)[:place] if options[key] == 0 and not isinstance(options[key], bool)]
        shown = {key for key, value in options.items() if type(value) in (int, float)} | ({BUDGET} if chosen else set())
        inside = " ".join(str(options[key]) for key in ("of", "options") if options.get(key))
        options = {key: value for key, value in options.items() if key in shown and key not in chosen}
        if inside:  # an update, or help in training, by another structure
            return f"{layer.get('structure', PLAIN)} {inside}"
    named = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()]
    return " ".join([str(layer.get("structure", PLAIN)), *named])


def network_label(config: Mapping[str, Any]) -> str | None:
    """Return the parts of a network that are not dense.

    An example is ``phm n=8, output circulant``. A dense network is ``dense``; the label is ``None`` if the config names
    no part.
    """
    labels = {part: layer_label(config.get(part)) for part in ("layer", "embedding", "output")}
    if not any(labels.values()):
        return None
    named = {part: label for part, label in labels.items() if label not in (None, PLAIN)}
    return ", ".join(f"{part} {label}".removeprefix("layer ") for part, label in named.items()) or PLAIN
