"""Scores in long form: one row per system, seed, metric, and optionally item and trial.

Reads CSV, JSON lines, and the per-sample files of lm-evaluation-harness (``--log_samples``). Errors in the data name
file and line.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError, unknown

COLUMNS = ("system", "metric", "value")
OPTIONAL = ("seed", "item", "trial")
SAMPLES = "samples_"  # prefix of the harness's files: samples_TASK_TIME.jsonl
DIVERGED = "A diverged run has the value nan."
LARGEST = 1e100  # squares of larger values are no floats
EXAMPLE = "system,seed,metric,value\ndense,1,accuracy,91.2"


class Row(NamedTuple):
    """Score of a system.

    Attributes:
        system: Name of the system.
        seed: Training seed; empty if the file has none.
        metric: Name of the metric.
        value: The score; not finite for a diverged run.
        item: Test item; empty for a score of the whole test set.
        trial: Trial of a search; empty without a search.
        where: File and line.
    """

    system: str
    seed: str
    metric: str
    value: float
    item: str
    trial: str
    where: str


def read_rows(files: Sequence[str]) -> list[Row]:
    """Read the rows of several files, in their order.

    ``NAME=PATH`` sets the system of a harness file, unless a file of that whole name exists. A folder stands for all
    harness files below it.

    Raises:
        PhmrunError: (exit 3) A file cannot be read or is not in long form, or there are no scores.
    """
    rows: list[Row] = []
    for file in files:
        name, separator, path = file.partition("=")
        if not separator or Path(file).exists():
            name, path = "", file
        for source in _files(Path(path)):
            rows += read_file(source, name)
    if not rows:
        raise _bad("there are no scores", files[0] if files else "", hint=f"A CSV file begins:\n{EXAMPLE}")
    return rows


def read_file(path: Path, system: str = "") -> list[Row]:
    """Read a file in long form, or of the harness.

    JSON lines begin with "{", and are of the harness if the first has ``doc_id`` and ``metrics``; other files are CSV.
    ``system`` is only used for a harness file; by default the name of its folder.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, or is not in long form.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(f"the file cannot be read: {error}", str(path)) from error
    if not text.lstrip().startswith("{"):
        return list(_rows_of(_csv_records(path, text)))
    records = list(_json_records(path, text))
    if records and "doc_id" in records[0][1] and "metrics" in records[0][1]:
        return _samples(records, path, system or path.parent.name)
    return list(_rows_of(records))


def rows_of_table(table: Any) -> list[Row]:
    """Return the rows of a pandas data frame or of mappings.

    Raises:
        PhmrunError: (exit 3) A row lacks a key, its value is no number, or a column occurs twice.
    """
    _require_single(list(getattr(table, "columns", ())), "the table")
    records: Iterable[Any] = table.to_dict("records") if hasattr(table, "to_dict") else table
    return list(_rows_of((f"row {number}", record) for number, record in enumerate(records, start=1)))


def _files(path: Path) -> list[Path]:
    """Return the files that a path stands for, sorted.

    They are the harness files below a folder, at any depth; any other path is returned alone, even if missing.

    Raises:
        PhmrunError: (exit 3) The folder has no harness file.
    """
    if not path.is_dir():
        return [path]
    samples = sorted(path.rglob(f"{SAMPLES}*.jsonl"))
    if not samples:
        raise _bad(f"the folder has no {SAMPLES}*.jsonl", str(path), hint="`lm_eval --log_samples` writes them.")
    return samples


def _csv_records(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and values by column of each CSV line.

    Spaces around heads and after commas are removed.

    Raises:
        PhmrunError: (exit 3) The file is empty, a required column is missing, a column occurs twice, a line has
            another number of columns, or a field is longer than 131,072 characters.
    """
    if not text.strip():
        raise _bad("the file is empty", str(path), hint=f"A CSV file begins:\n{EXAMPLE}")
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True)
    try:
        yield from _checked_records(path, text, reader)
    except csv.Error as error:
        raise _bad(f"the line is not CSV: {error}", f"{path}:{reader.line_num + 1}") from error


def _checked_records(path: Path, text: str, reader: "csv.DictReader[str]") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and values by column of each CSV line, as :func:`_csv_records`."""
    heads = [head.strip() for head in reader.fieldnames or ()]
    reader.fieldnames = heads
    _require_single(heads, f"{path}:1")
    if missing := [name for name in COLUMNS if name not in heads]:
        hint = f"Its first line is: {text.splitlines()[0][:60]}"
        raise _bad(f"the column {missing[0]!r} is missing", f"{path}:1", valid=(*COLUMNS, *OPTIONAL), hint=hint)
    for record in reader:
        where = f"{path}:{reader.line_num}"
        if None in record or None in record.values():
            raise _bad(f"the line does not have {len(heads)} columns", where)
        yield where, record


def _json_records(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and content of each JSON line.

    Empty lines are skipped.

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
            raise _bad(f"the line is not JSON: {error}", where) from error
        if not isinstance(record, Mapping):
            raise _bad("the line is not a JSON object", where)
        yield where, record


def _rows_of(records: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Row]:
    """Yield the rows of records in long form.

    A missing seed, item or trial is an empty text. Other keys are ignored.

    Raises:
        PhmrunError: (exit 3) A required key is missing, or a value is no number.
    """
    for where, record in records:
        for name in COLUMNS:
            if _text(record.get(name)) == "" and name != "value":
                raise _bad(f"{name!r} is missing", where, valid=(*COLUMNS, *OPTIONAL))
        value = _number(record.get("value"), where)
        seed, item, trial = (_text(record.get(name)) for name in OPTIONAL)
        yield Row(_text(record["system"]), seed, _text(record["metric"]), value, item, trial, where)


def _samples(records: Iterable[tuple[str, Mapping[str, Any]]], path: Path, system: str) -> list[Row]:
    """Return the rows of a harness file, without seeds and trials.

    A metric is called TASK/METRIC, or "TASK/METRIC,FILTER" if the file has several filters. An item is
    "doc_id:doc_hash". Rows are in the order of lines, then of a line's metrics. Values that are no numbers are left
    out.

    Raises:
        PhmrunError: (exit 3) A line has no doc_id or metrics.
    """
    task = path.name.removeprefix(SAMPLES).removesuffix(".jsonl").rpartition("_")[0] or path.stem
    kept = list(records)
    several = len({str(record.get("filter", "none")) for _, record in kept}) > 1
    rows = []
    for where, record in kept:
        names = record.get("metrics")
        if not isinstance(names, list) or "doc_id" not in record:
            raise _bad("the line has no doc_id or metrics", where)
        suffix = f",{record['filter']}" if several else ""
        # With the document's checksum, since another version of the task has other items.
        item = f"{record['doc_id']}:{record.get('doc_hash', '')}"
        for name in names:
            if isinstance(value := record.get(name), int | float):
                rows.append(Row(system, "", f"{task}/{name}{suffix}", float(value), item, "", where))
    return rows


def _number(value: Any, where: str) -> float:
    """Return a value as a float.

    Raises:
        PhmrunError: (exit 3) It is no number, or finite and beyond ±1e100.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        shown = "nothing" if _text(value) == "" else repr(value)
        raise _bad(f"the value is not a number: {shown:.60}", where, hint=DIVERGED) from error
    if math.isfinite(number) and abs(number) > LARGEST:
        raise _bad(f"the value {number:g} is beyond ±{LARGEST:g}", where, hint=DIVERGED)
    return number


def _require_single(names: Sequence[Any], where: str) -> None:
    """Check that no column of the long form occurs twice.

    Raises:
        PhmrunError: (exit 3) One does.
    """
    if twice := [name for name in (*COLUMNS, *OPTIONAL) if names.count(name) > 1]:
        raise _bad(f"the column {twice[0]!r} occurs twice", where, hint="Keep the one that is meant.")


def _text(value: Any) -> str:
    """Return a label as text without surrounding spaces.

    Integral floats lose their ".0"; None and NaN are empty.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def choose_metric(rows: Sequence[Row], metric: str, option: str = "--metric") -> list[Row]:
    """Return the rows of one metric, in their order.

    A metric of exactly that name goes first. Else, METRIC matches TASK/METRIC if there is one such task.

    Raises:
        PhmrunError: (exit 2) No metric, or more than one, matches. ``option`` names the option in the message.
    """
    names = sorted({row.metric for row in rows})
    if metric not in names:
        matches = [name for name in names if name.rpartition("/")[2] == metric]
        if len(matches) != 1:
            raise unknown("metric", metric, names, where=option)
        metric = matches[0]
    return [row for row in rows if row.metric == metric]


def _bad(what: str, where: str, *, valid: Sequence[str] = (), hint: str | None = None) -> PhmrunError:
    """Return the error (exit 3) for faulty data."""
    return PhmrunError(what, where=where or None, valid=valid, hint=hint, code=ExitCode.DATA)
