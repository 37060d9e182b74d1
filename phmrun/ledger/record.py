"""Small JSON records of finished runs, diverged ones included.

A run directory restored from a record serves tables, reports, plots and comparisons. Commands that need weights
(``eval``, ``predict``, ``export``) refuse it. ``runs reproduce`` trains it again and compares scores and checksums.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json, parse_yaml, restored, to_line, yaml_text
from phmrun.errors import PhmrunError, data_error
from phmrun.files import data_dir, json_text, read_regular, read_text, replacing_directory, write_text
from phmrun.ledger.directory import (
    BENCH,
    CONFIG,
    DATA,
    ENVIRONMENT,
    HISTORY,
    MANIFEST,
    METRICS,
    PARAMETERS,
    RUN_ID,
    STATUS,
    directory_of,
)
from phmrun.ledger.environment import DataRecord
from phmrun.ledger.manifest import Record
from phmrun.ledger.run import SAMPLES, Run
from phmrun.ledger.status import State, Status
from phmrun.ledger.wording import shared

FORMAT = "phmrun-result-1"
POINTS = 40
"""Limit of kept rows of the history without a validation."""
ITEMS, WEIGHTS = "items.json", "weights.json"
_END = re.compile(rb',\n"sha256": "([0-9a-f]{64})"\n}\n\Z')
_LONGEST = 1 << 20
"""Limit of a record in bytes."""


def absolute_paths(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value that are absolute paths.

    Mappings (values, not keys) and lists are searched at any depth.
    """
    if isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from absolute_paths(item)
    elif isinstance(value, str) and Path(value).is_absolute():
        yield value


def record_of(run: Run, *, items: Mapping[str, Any], weights: Mapping[str, str]) -> dict[str, Any]:
    """Return the record of a run that is done or has diverged, as a JSON object.

    It has config, status, scores, parameters (without those of each module), data, environment, thinned history, items,
    checksums of weights, and measurements and identity if they are on record. It has neither weights, outputs, the
    machine's name nor the command line. Paths are relative to the data directory, or file names alone.

    Args:
        run: Run in the state ``done``, or ``failed`` because it diverged; a table counts both.
        items: Counts of each test item, by score.
        weights: Checksums of the tensors, by file; empty for a run without its checkpoints.

    Raises:
        PhmrunError: (exit 2) The run is not done; (exit 3) one of its files is damaged, or one of its checkpoints is
            missing and others are there.
    """
    status = run.status
    if status.state is not State.DONE and not status.diverged:
        raise PhmrunError(f"the run is {status.state}, so there is no result yet", where=run.path)
    segments = [_without(entry, "command", "host") for entry in run.environment()]
    # A run that was archived without weights has none of its checkpoints.
    run.manifest.check_all(without=() if any(run.checkpoints.glob("*.ckpt")) else ("checkpoints",))
    config = parse_yaml(read_text(run.config_path), str(run.config_path))
    manifest = run.manifest.read()
    data = run.data() or DataRecord()
    files = data.files
    return {
        "format": FORMAT,
        "run": run.id,
        "config": portable(config),
        "status": portable(_without(status.to_json(), "host", "pid")),
        "metrics": portable(run.metrics()),
        "parameters": portable(_without(run.parameters(), "modules")),
        "data": {
            "fingerprints": dict(data.fingerprints),
            "files": [[Path(file.path).name, file.sha256, file.bytes] for file in files],
            "splits": {name: [files.index(file) for file in split.files] for name, split in data.splits.items()},
        },
        "environment": portable(segments),
        "history": thinned(run.history.read()),
        "items": dict(items),
        "weights": dict(weights),
        **({"bench": portable(bench)} if (bench := run.bench()) else {}),
        **({"identity": manifest.identity} if manifest and manifest.identity else {}),
    }


def write_record(record: Mapping[str, Any], folder: Path) -> Path:
    """Write a record as ``<run-id>.json`` into a folder.

    Return its path. The last line is a checksum of the text before it. Equal records give equal bytes. A missing folder
    is created; an existing file is replaced.
    """
    path = folder / f"{record['run']}.json"
    lines = [to_line({key: value}).strip()[1:-1] for key, value in record.items()]
    content = "{\n" + ",\n".join(lines)
    digest = hashlib.sha256(content.encode("utf-8")).hexdigest()
    write_text(path, f'{content},\n"sha256": "{digest}"\n}}\n')
    return path


def record_paths(folder: Path) -> list[Path]:
    """Return the files of the small results below a folder, sorted.

    The folder is one of sweeps (``*/*.json``), or without such files one sweep's own (``*.json``).

    Raises:
        PhmrunError: (exit 3) There is no result.
    """
    paths = sorted(folder.glob("*/*.json")) or sorted(folder.glob("*.json"))
    if not paths:
        what = "there are no results below it" if folder.is_dir() else "there is no such folder"
        raise data_error(what, folder, "`phmrun results add FILE|RUN… --to DIR/NAME` writes results.")
    return paths


def restore(paths: Sequence[Path], runs_dir: Path) -> list[Run]:
    """Restore run directories from records, each atomically.

    All records are read and checked before the first directory is created. Runs that have a status are left unchanged,
    even if they differ from the record; a directory without one is replaced. Of two records of a run with equal scores
    the last counts.

    Args:
        paths: Files of records.
        runs_dir: Directory of runs.

    Returns:
        One run for each that has a record, in the order of the first.

    Raises:
        PhmrunError: (exit 3) A file is not a record or not named after its run, two records of a run have different
            scores, or a run's place has weights without a status.
    """
    named = {Run(place): contents for place, (contents, _) in _read_records(paths, runs_dir).items()}
    missing = {run: _texts(contents) for run, contents in named.items() if not run.status_path.exists()}
    for run in missing:
        if run.checkpoints.exists():
            raise data_error(f"there are weights here, but no {STATUS}", run.path)
    for run, texts in missing.items():  # an existing directory is replaced: its process died before it wrote a status
        with replacing_directory(run.path) as folder:
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
    return [*named]


class RecordedRun(Run):
    """Run of a record, lenient and for reading only; its directory ``path`` need not exist.

    Like a restored directory it has no samples, logs and weights.
    """

    def __init__(self, path: Path, contents: Mapping[str, Any]) -> None:
        super().__init__(path, lenient=True)
        read = restored({name: content for name, content in contents.items() if name != MANIFEST})
        read |= {"values": read[CONFIG], CONFIG: _config_text(contents), STATUS: Status.from_json(contents[STATUS])}
        self.contents.kept |= {BENCH: {}, SAMPLES: {}, **read, MANIFEST: contents[MANIFEST][1]}
        self.history.held, self.manifest.kept = read[HISTORY], Record(contents[MANIFEST][0])


def recorded_runs(paths: Sequence[Path], runs_dir: Path) -> list[Run]:
    """Return the runs of records, each once, sorted, as if :func:`restore` had made them; nothing is written.

    Raises:
        PhmrunError: (exit 3) As :func:`restore`.
    """
    return [RecordedRun(path, contents) for path, (contents, _) in sorted(_read_records(paths, runs_dir).items())]


def _read_records(paths: Sequence[Path], runs_dir: Path) -> dict[Path, tuple[dict[str, Any], Path]]:
    """Read records; return the contents of runs' files, as :func:`_contents`, and the record's file, by run directory.

    Of two records of a run with equal scores the last counts, since sweeps may share a run.

    Raises:
        PhmrunError: (exit 3) A file is not a record or not named after its run, or two records of a run have different
            scores.
    """
    named: dict[Path, tuple[dict[str, Any], Path]] = {}
    for path in paths:
        name, contents = _read_record(path)
        place = directory_of(runs_dir, name)
        if place in named and named[place][0][METRICS] != contents[METRICS]:
            what = f"two results of the run {name} have different scores"
            hint = "Keep the one that you trust, and delete the other."
            raise data_error(what, f"{named[place][1]} and {path}", hint)
        named[place] = contents, path
    return named


def _read_record(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a record.

    Return the run id, and the contents of the run's files by name, as :func:`_contents`. A record without a checksum is
    accepted.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, is damaged, has another format, is larger than 1 MiB, or is not
            named after its run.
    """
    try:
        content = read_regular(path, most=_LONGEST)
        record = parse_json(content)
        if isinstance(record, dict) and "sha256" in record:
            end = _END.search(content, max(0, len(content) - 100))
            if not end or hashlib.sha256(content[: end.start()]).hexdigest().encode() != end[1]:
                raise ValueError("checksum mismatch")
    except (OSError, ValueError) as error:
        raise data_error(f"this is not a result of a run: {error}", path) from error
    expected = {"run", "config", "status", "metrics", "parameters", "data", "environment", "history"}
    if not isinstance(record, dict) or record.get("format") != FORMAT or expected - record.keys():
        raise data_error(f"this is no result of a run: its format is not {FORMAT}", path)
    name = record["run"]
    if not isinstance(name, str) or not RUN_ID.fullmatch(name) or path.name != f"{name}.json":
        raise data_error("a result is named for its run: RUN_ID.json", path)
    try:
        return name, _contents(record)
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise data_error(f"the result is damaged: {error!r}", path) from error


def _contents(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON values of a run's files by name: of the history its rows, of the manifest the identity, twice.

    The identity is a text, and what it says; ``None`` twice without one. Wrong types are errors of conversion.
    """
    files = [
        {"path": str(file), "sha256": str(digest), "bytes": int(size)} for file, digest, size in record["data"]["files"]
    ]
    splits = {
        split: {"files": [files[place] for place in places]} for split, places in record["data"]["splits"].items()
    }
    data = DataRecord.from_json({"splits": splits, "fingerprints": record["data"]["fingerprints"]})
    return {
        CONFIG: dict(record["config"]),
        STATUS: Status.from_json(record["status"]).to_json(),
        METRICS: dict(record["metrics"]),
        PARAMETERS: dict(record["parameters"]),
        DATA: data.to_json(),
        ENVIRONMENT: {"segments": [dict(segment) for segment in record["environment"]]},
        HISTORY: [{**row, "step": int(row["step"])} for row in record["history"]],
        ITEMS: dict(record.get("items", {})),
        WEIGHTS: dict(record.get("weights", {})),
        **({BENCH: dict(record["bench"])} if "bench" in record else {}),
        MANIFEST: (record.get("identity"), json.loads(record.get("identity") or "null")),
    }


def _config_text(contents: Mapping[str, Any]) -> str:
    """Return the text of a config: JSON, which is YAML, too, unless a number is NaN or infinite."""
    values = restored(contents[CONFIG])
    return json_text(values) if values == contents[CONFIG] else yaml_text(values)


def _texts(contents: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a run's files by name, with a manifest of all of them, from :func:`_contents`."""
    texts = {name: json.dumps(content, ensure_ascii=False) for name, content in contents.items() if name != MANIFEST}
    texts[CONFIG] = _config_text(contents)
    texts[HISTORY] = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in contents[HISTORY])
    sums = {name: (hashlib.sha256(text.encode("utf-8")).hexdigest(),) for name, text in texts.items()}
    manifest = Record(contents[MANIFEST][0], sums)
    return {**texts, MANIFEST: json.dumps(manifest.to_json(), ensure_ascii=False)}


def thinned(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with a validation, and some others.

    Up to 40 others are all kept; of more, 40 evenly spaced from the first to the last. The copies are sorted by step;
    floats are rounded to five significant digits.
    """
    kept = [row for row in rows if _is_validation(row)]
    others = [row for row in rows if not _is_validation(row)]
    if len(others) > POINTS:
        others = [others[round(place * (len(others) - 1) / (POINTS - 1))] for place in range(POINTS)]
    rows = sorted([*kept, *others], key=lambda row: row.get("step", 0))
    return [{key: float(f"{x:.5g}") if isinstance(x, float) else x for key, x in row.items()} for row in rows]


def _is_validation(row: Mapping[str, Any]) -> bool:
    """True if a row has a figure "val/…"."""
    return any(key.startswith("val/") for key in row)


def portable(value: Any) -> Any:
    """Return a copy of a JSON value without this machine's paths.

    An absolute path becomes relative to the data directory if it is below it, else its last name. In other texts, paths
    below the data directory or the home are shortened. Keys stay.
    """
    if isinstance(value, Mapping):
        return {key: portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [portable(item) for item in value]
    if not isinstance(value, str) or os.sep not in value:
        return value
    path = Path(value)
    if not path.is_absolute():
        return shared(value)
    below = str(path.relative_to(data_dir())) if path.is_relative_to(data_dir()) else path.name
    return f"{below}/" if value.endswith("/") else below  # a prefix may be a folder


def _without(values: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a copy of a mapping without some keys."""
    return {key: value for key, value in values.items() if key not in keys}
