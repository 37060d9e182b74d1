"""A run as one file: packed with its weights, or as a small JSON record of what its directory says of a finished one.

From a record the directory is made again, for every verb that reads: tables, claims, reports, plots, comparisons.
What needs weights (``eval``, ``predict``, ``export``) refuses it; ``runs reproduce`` trains it anew and compares the
scores and the checksums of the weights.
"""

import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import yaml

from phmrun.documents import parse_yaml, parsed, plain, to_line
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import data_dir, read_regular, replacing, write_json, write_text
from phmrun.ledger.card import shared
from phmrun.ledger.environment import DataRecord, Source, Split
from phmrun.ledger.lock import LOCK
from phmrun.ledger.run import Run, State, Status, directory_of

FORMAT = "phmrun-result-1"
POINTS = 40
"""Rows of the course of training that are kept."""
ITEMS, WEIGHTS = "items.json", "weights.json"
COMPUTING = ("phmrun", "torch", "pytorch-lightning", "numpy", "sentencepiece", "sacrebleu", "torchmetrics")
"""The libraries whose versions are kept."""
_LONGEST = 1 << 20
"""Bytes of a file that is read."""


def archive(runs: Sequence[Run], path: Path, *, checkpoints: bool = True) -> int:
    """Packs runs of different names into one ``.tar.gz``, whole or not at all, with or without checkpoints; its bytes.

    Unpacked anywhere (``tar -xzf``), they are runs as before. A run that a living process holds raises a `PhmrunError`.
    """
    if not path.name.endswith((".tar.gz", ".tgz")):
        raise PhmrunError(f"{path.name!r} is no name of an archive", where="--to", valid=(".tar.gz", ".tgz"))
    if len({run.id for run in runs}) < len(runs):
        raise PhmrunError("two of the runs have the same name", hint="Archive them into different files.")
    left_out = {LOCK, "wandb"}  # a mirror that `phmrun sync` makes again
    if not checkpoints:
        left_out.add("checkpoints")

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        below = Path(entry.name).parts[1:2]
        return None if below and (below[0] in left_out or below[0].startswith(".")) else entry

    with replacing(path) as temporary, tarfile.open(temporary, "w:gz") as packed:
        for run in runs:
            with run.lock() if os.access(run.path, os.W_OK) else nullcontext():
                packed.add(run.path, arcname=run.id, filter=kept)
    return path.stat().st_size


def record_of(run: Run, *, items: Mapping[str, Any], weights: Mapping[str, str]) -> dict[str, Any]:
    """What a finished run's directory says of it, beside what each test item adds to its counts, by score, as JSON.

    Left out are weights (but for checksums of their tensors, by file), outputs, the machine's name and the command
    line; the course of training is thinned. Paths are those below the data directory, or names alone.
    """
    status = run.status
    if status.state is not State.DONE:
        raise PhmrunError(f"the run is {status.state}, so there is no result yet", where=str(run.path))
    config = parse_yaml(run.config_path.read_text(encoding="utf-8"), str(run.config_path))
    segments = []
    for each in run.environment():
        segment, versions = _without(each, "command", "host"), each.get("packages", {})
        segment["code"] = _without(each.get("code", {}), "diff")  # the file stays behind
        segment["packages"] = {name: versions[name] for name in COMPUTING if name in versions}
        segments.append(segment)
    data = run.data() or DataRecord()
    files = list(dict.fromkeys(file for split in data.splits.values() for file in split.files))
    return {
        "format": FORMAT,
        "run": run.id,
        "config": _portable(config),
        "status": _portable(_without(status.to_json(), "host", "pid")),
        "metrics": _portable(run.metrics()),
        "parameters": _portable(_without(run.parameters(), "modules")),
        "data": {
            "fingerprints": dict(data.fingerprints),
            "files": [[Path(file.path).name, file.sha256, file.bytes] for file in files],
            "splits": {name: [files.index(file) for file in split.files] for name, split in data.splits.items()},
        },
        "environment": _portable(segments),
        "history": thinned(run.history.read()),
        "items": dict(items),
        "weights": dict(weights),
    }


def write_record(record: Mapping[str, Any], folder: Path) -> Path:
    """Writes a record as ``<run-id>.json``; the same content gives the same bytes."""
    path = folder / f"{record['run']}.json"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [to_line({key: value}).strip()[1:-1] for key, value in record.items()]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")
    return path


def restore(paths: Sequence[Path], runs_dir: Path, *, durable: bool = True) -> list[Run]:
    """Makes run directories of records; one that is there with weights or a newer state is left as it is.

    Where they are to be ``durable``, they outlast a power cut: a directory with a status is whole. A file that is no
    record, or has not the name of its run, raises a `PhmrunError` (exit 3).
    """
    runs = [_restored(path, runs_dir) for path in paths]
    if durable and any(status for _, status in runs):
        os.sync()  # once for all of them: file by file takes a hundred times as long
    for run, status in runs:
        if status is not None:
            (write_json if durable else _write)(run.status_path, status.to_json())
    return [run for run, _ in runs]


def _restored(path: Path, runs_dir: Path) -> tuple[Run, Status | None]:
    """The directory of a record with all but its status, which is yet to be written; ``None``: it was there."""
    try:
        record = parsed(read_regular(path, most=_LONGEST))
    except (OSError, ValueError) as error:
        raise PhmrunError(f"this is no result of a run: {error}", where=str(path), code=ExitCode.DATA) from error
    expected = {"run", "config", "status", "metrics", "parameters", "data", "environment", "history"}
    if not isinstance(record, dict) or record.get("format") != FORMAT or expected - record.keys():
        what = f"this is no result of a run: its format is not {FORMAT}"
        hint = "`phmrun results add` writes such files."
        raise PhmrunError(what, where=str(path), hint=hint, code=ExitCode.DATA)
    if not isinstance(record["run"], str) or path.stem != record["run"]:
        raise PhmrunError("a result is named for its run", where=str(path), code=ExitCode.DATA)
    try:
        status = Status.from_json(record["status"])
        files = [Source(str(name), str(digest), int(size)) for name, digest, size in record["data"]["files"]]
        splits = {}
        for name, places in record["data"]["splits"].items():
            splits[str(name)] = Split(tuple(files[place] for place in places))
        data = DataRecord(splits, {str(key): str(mark) for key, mark in record["data"]["fingerprints"].items()})
        rows = [to_line(row) for row in record["history"]]
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise PhmrunError(f"the result is damaged: {error!r}", where=str(path), code=ExitCode.DATA) from error
    run = Run(directory_of(runs_dir, record["run"]))
    if run.status_path.exists():
        return run, None
    # Nothing is written before all of the record was understood. The status is left to the caller, who writes it when
    # the rest is on disk: a directory that has one is whole.
    run.path.mkdir(parents=True, exist_ok=True)
    contents = {
        run.metrics_path: plain(record["metrics"]),
        run.parameters_path: plain(record["parameters"]),
        run.data_path: data.to_json(),
        run.environment_path: {"segments": plain(record["environment"])},
        run.path / ITEMS: record.get("items", {}),
        run.path / WEIGHTS: record.get("weights", {}),
    }
    config = yaml.safe_dump(record["config"], sort_keys=False, allow_unicode=True)
    run.config_path.write_text(config, encoding="utf-8")
    run.history.path.write_text("".join(rows), encoding="utf-8")
    for file, content in contents.items():
        _write(file, content)
    return run, status


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def thinned(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """At most `POINTS` rows with a validation and as many without, evenly spaced; five digits of each number."""
    kept: list[Mapping[str, Any]] = []
    for validated in (True, False):
        some = [row for row in rows if any(key.startswith("validation/") for key in row) is validated]
        if len(some) > POINTS:
            some = [some[round(place * (len(some) - 1) / (POINTS - 1))] for place in range(POINTS)]
        kept += some
    kept.sort(key=lambda row: row.get("step", 0))
    return [{key: float(f"{x:.5g}") if isinstance(x, float) else x for key, x in row.items()} for row in kept]


def _portable(value: Any) -> Any:
    """A value without the places of this machine: in it, at any depth, paths and texts that name some."""
    if isinstance(value, Mapping):
        return {key: _portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(item) for item in value]
    if not isinstance(value, str) or os.sep not in value:
        return value
    path = Path(value)
    if not path.is_absolute():
        return shared(value)
    below = str(path.relative_to(data_dir())) if path.is_relative_to(data_dir()) else path.name
    return f"{below}/" if value.endswith("/") else below  # a prefix may be a folder


def _without(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}
