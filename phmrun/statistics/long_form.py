"""Scores in long form as a data frame: one row per system, seed, metric, and optionally item and trial.

Reads CSV, JSON lines, and the per-sample files of lm-evaluation-harness (``--log_samples``). Errors in the data name
file and line.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
from pandas import DataFrame

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError, unknown

COLUMNS = ("system", "metric", "value")
OPTIONAL = ("seed", "item", "trial")
SAMPLES = "samples_"  # prefix of the harness's files: samples_TASK_TIME.jsonl
DIVERGED = "A diverged run has the value nan."
LARGEST = 1e100  # squares of larger values are no floats
EXAMPLE = "A CSV file begins:\nsystem,seed,metric,value\ndense,1,accuracy,91.2"


def read_rows(files: Sequence[str]) -> DataFrame:
    """Read the rows of several files, in their order; see :func:`long_form` for the columns.

    ``NAME=PATH`` sets the system of a harness file, unless a file of that whole name exists; by default it is the name
    of its folder. A folder stands for all harness files below it. JSON lines begin with "{", and are of the harness if
    the first has ``doc_id`` and ``metrics``; other files are CSV.

    Raises:
        PhmrunError: (exit 3) A file cannot be read or is not in long form, or there are no scores.
    """
    records: list[dict[str, Any]] = []
    for file in files:
        name, separator, path = file.partition("=")
        if not separator or Path(file).exists():
            name, path = "", file
        for source in _files(Path(path)):
            records += _records(source, name)
    if not records:
        raise bad("there are no scores", files[0] if files else "", hint=EXAMPLE)
    return long_form(records)


def long_form(table: Any) -> DataFrame:
    """Return a data frame or mappings with the columns system, seed, metric, value, item, trial and where.

    ``where`` has file and line, or the number of the row. A missing seed, item or trial is an empty text. A value is
    not finite for a diverged run. Other columns are left out.

    Raises:
        PhmrunError: (exit 3) A row lacks a key, its value is no number, or a column occurs twice.
    """
    frame = table if isinstance(table, DataFrame) else DataFrame([dict(record) for record in table], dtype=object)
    _require_single(list(frame.columns), "the table")
    if "where" not in frame:
        frame = frame.assign(where=[f"row {number}" for number in range(1, len(frame) + 1)])
    frame = frame.reindex(columns=[*COLUMNS, *OPTIONAL, "where"]).reset_index(drop=True)
    texts = frame[["system", "metric", *OPTIONAL]].map(_text)
    for name in ("system", "metric"):
        for where in frame["where"][texts[name] == ""]:
            raise bad(f"{name!r} is missing", where, valid=(*COLUMNS, *OPTIONAL))
    values = [_number(value, where) for value, where in zip(frame["value"], frame["where"], strict=True)]
    return texts.assign(value=values, where=frame["where"])


def _files(path: Path) -> list[Path]:
    """Return the harness files below a folder, at any depth and sorted; any other path is returned alone.

    Raises:
        PhmrunError: (exit 3) The folder has no harness file.
    """
    if not path.is_dir():
        return [path]
    samples = sorted(path.rglob(f"{SAMPLES}*.jsonl"))
    if not samples:
        raise bad(f"the folder has no {SAMPLES}*.jsonl", str(path), hint="`lm_eval --log_samples` writes them.")
    return samples


def _records(path: Path, system: str) -> list[dict[str, Any]]:
    """Return the records of a file, each with its line at "where"; see :func:`read_rows`.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, or a line is damaged.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise bad(f"the file cannot be read: {error}", str(path)) from error
    if not text.lstrip().startswith("{"):
        return list(_csv_records(path, text))
    records = list(_json_records(path, text))
    is_sample = "doc_id" in records[0] and "metrics" in records[0]
    return list(_samples(records, path, system or path.parent.name)) if is_sample else records


def _csv_records(path: Path, text: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a CSV file. Spaces around heads and after commas are removed.

    Raises:
        PhmrunError: (exit 3) The file is empty, a required column is missing, a column occurs twice, a line has
            another number of columns, or a field is longer than 131,072 characters.
    """
    if not text.strip():
        raise bad("the file is empty", str(path), hint=EXAMPLE)
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True)
    try:
        heads = reader.fieldnames = [head.strip() for head in reader.fieldnames or ()]
        _require_single(heads, f"{path}:1")
        if missing := [name for name in COLUMNS if name not in heads]:
            hint = f"Its first line is: {text.splitlines()[0][:60]}"
            raise bad(f"the column {missing[0]!r} is missing", f"{path}:1", valid=(*COLUMNS, *OPTIONAL), hint=hint)
        for record in reader:
            where = f"{path}:{reader.line_num}"
            if None in record or None in record.values():
                raise bad(f"the line does not have {len(heads)} columns", where)
            yield {**record, "where": where}
    except csv.Error as error:
        raise bad(f"the line is not CSV: {error}", f"{path}:{reader.line_num + 1}") from error


def _json_records(path: Path, text: str) -> Iterator[dict[str, Any]]:
    """Yield the content of each JSON line. Empty lines are skipped.

    Raises:
        PhmrunError: (exit 3) A line is no JSON object, or repeats a key.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = parse_json(line, unique=True)
        except (ValueError, PhmrunError) as error:
            raise bad(f"the line is not JSON: {error}", where) from error
        if not isinstance(record, dict):
            raise bad("the line is not a JSON object", where)
        yield {**record, "where": where}


def _samples(records: Sequence[Mapping[str, Any]], path: Path, system: str) -> Iterator[dict[str, Any]]:
    """Yield the scores of a harness file, without seeds and trials.

    A metric is called TASK/METRIC, or "TASK/METRIC,FILTER" if the file has several filters. An item is
    "doc_id:doc_hash". Values that are no numbers are left out.

    Raises:
        PhmrunError: (exit 3) A line has no doc_id or metrics.
    """
    task = path.name.removeprefix(SAMPLES).removesuffix(".jsonl").rpartition("_")[0] or path.stem
    several = len({str(record.get("filter", "none")) for record in records}) > 1
    for record in records:
        if not isinstance(record.get("metrics"), list) or "doc_id" not in record:
            raise bad("the line has no doc_id or metrics", record["where"])
        suffix = f",{record['filter']}" if several else ""
        # With the document's checksum, since another version of the task has other items.
        item = f"{record['doc_id']}:{record.get('doc_hash', '')}"
        for name in record["metrics"]:
            if isinstance(value := record.get(name), int | float):
                facts = {"system": system, "metric": f"{task}/{name}{suffix}", "value": value, "item": item}
                yield {**facts, "where": record["where"]}


def _number(value: Any, where: str) -> float:
    """Return a value as a float.

    Raises:
        PhmrunError: (exit 3) It is no number, or finite and beyond ±1e100.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        shown = "nothing" if _text(value) == "" else repr(value)
        raise bad(f"the value is not a number: {shown:.60}", where, hint=DIVERGED) from error
    if math.isfinite(number) and abs(number) > LARGEST:
        raise bad(f"the value {number:g} is beyond ±{LARGEST:g}", where, hint=DIVERGED)
    return number


def _require_single(names: Sequence[Any], where: str) -> None:
    """Check that no column of the long form occurs twice.

    Raises:
        PhmrunError: (exit 3) One does.
    """
    if twice := [name for name in (*COLUMNS, *OPTIONAL) if names.count(name) > 1]:
        raise bad(f"the column {twice[0]!r} occurs twice", where, hint="Keep the one that is meant.")


def _text(value: Any) -> str:
    """Return a label as text without surrounding spaces.

    Integral floats lose their ".0"; None and NaN are empty.
    """
    if pandas.isna(value):
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def choose_metric(rows: DataFrame, metric: str, option: str = "--metric") -> DataFrame:
    """Return the rows of one metric, in their order.

    A metric of exactly that name goes first. Else, METRIC matches TASK/METRIC if there is one such task.

    Raises:
        PhmrunError: (exit 2) No metric, or more than one, matches. ``option`` names the option in the message.
    """
    names = sorted(set(rows["metric"]))
    if metric not in names:
        matches = [name for name in names if name.rpartition("/")[2] == metric]
        if len(matches) != 1:
            raise unknown("metric", metric, names, where=option)
        metric = matches[0]
    return rows[rows["metric"] == metric]


def bad(what: str, where: str, *, valid: Sequence[str] = (), hint: str | None = None) -> PhmrunError:
    """Return the error (exit 3) for faulty data."""
    return PhmrunError(what, where=where or None, valid=valid, hint=hint, code=ExitCode.DATA)
