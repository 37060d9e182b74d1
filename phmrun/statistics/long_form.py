"""Scores as a data frame in long form: one row per system, seed, metric, and optionally item.

Reads CSV and TSV, long or wide, JSON lines, and the files of lm-evaluation-harness: samples (``--log_samples``) and
results. Errors in the data name file and line.
"""

import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas
from pandas import DataFrame

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError, unknown

COLUMNS = ("system", "metric", "value")
OPTIONAL = ("seed", "item")
SYSTEMS = ("system", "model", "layer", "run")  # headings of the systems; the first that a table has
_SEED = re.compile(r"(?:seed|run|s)?[ _-]*(\d+)", re.IGNORECASE)
"""Heading of a seed's scores: 1, seed 1, run_1."""
_SUMMARY = r"(?i)mean|average|avg|median|std|stdev|sd|sem|sum|total|all|min|max"  # no seed, but a figure of several
ONE = ["system", "metric", "model_args"]  # what one score of the harness has of its own
SAMPLES, RESULTS = "samples_", "results"  # of the harness: samples_TASK_TIME.jsonl, results_TIME.json
DIVERGED = "A diverged run has the value nan."
LARGEST = 1e100  # squares of larger values are no floats
EXAMPLE = """A file of scores begins in one of these ways, with commas or tabs:
system,seed,accuracy     system,seed,metric,value     seed,dense,mine     system,seed1,seed2
dense,1,91.2             dense,1,accuracy,91.2        1,91.2,89.8         dense,91.2,91.6"""


def read_rows(files: Sequence[str], metric: str = "") -> DataFrame:
    """Read the rows of several files, in their order; see :func:`long_form` for the columns.

    ``NAME=PATH`` sets the system of a harness file, unless a file of that whole name exists; by default it is the model
    on record, or the name of the folder. A folder stands for all samples of the harness below it, or without any for
    all results. Results of several models with one name are its seeds. A file that begins with "{" is JSON, any
    other one CSV or TSV.

    Args:
        files: Paths.
        metric: Name of scores that have none in their file.

    Raises:
        PhmrunError: (exit 3) A file cannot be read or has none of these forms, a folder has two results of one model,
            or there are no scores.
    """
    frames = []
    for file in files:
        name, separator, path = file.partition("=")
        if not separator or Path(file).exists():
            name, path = "", file
        read = pandas.concat([_read(source, name, metric) for source in _files(Path(path))], ignore_index=True)
        for where in read["where"][read.duplicated(ONE)] if {*ONE} <= {*read} else ():
            hint = "A second evaluation is no second seed: leave it out. Give models of other seeds one by one."
            raise bad("a score of the same model was read before", where, hint=hint)
        frames.append(read)
    rows = pandas.concat(frames, ignore_index=True) if frames else DataFrame()
    if rows.empty:
        raise bad("there are no scores", files[0] if files else "", hint=EXAMPLE)
    if "fixed" in rows:  # results of the harness
        results, places = rows["fixed"].eq(True), rows.groupby(["system", "metric"]).cumcount() + 1
        several = rows.groupby(["system", "metric"])["value"].transform("size") > 1
        rows.loc[results & several, "seed"] = places.astype(str)
    return long_form(rows, metric)


def long_form(table: Any, metric: str = "") -> DataFrame:
    """Return a data frame or mappings with the columns system, seed, metric, value, item and where.

    Tables of other forms are converted. The heading of systems may be model, layer or run; beside one of these, run is
    the seed. Values may be under score; beside values, score is the metric. A dataset's (or task's) name stands before
    its metric, with a slash. Without values, there is a column for each metric, seed or system.
    ``where`` has file and line, or the number of the row. A missing seed or item is an empty text. A value is
    not finite for a diverged run. Other columns are left out.

    Raises:
        PhmrunError: (exit 3) A row lacks a key or is a summary, its value is no number, or a column occurs twice.
    """
    frame = table if isinstance(table, DataFrame) else DataFrame([dict(record) for record in table], dtype=object)
    if "where" not in frame:
        frame = frame.assign(where=[f"row {number}" for number in range(1, len(frame) + 1)])
    frame = _melted(frame.reset_index(drop=True), metric)
    frame = frame.reindex(columns=[*COLUMNS, *OPTIONAL, "where"]).reset_index(drop=True)
    texts = frame[["system", "metric", *OPTIONAL]].map(_text)
    for name in ("system", "metric"):
        for where in frame["where"][texts[name] == ""]:
            hint = "--metric NAME names it." if name == "metric" else None
            raise bad(f"{name!r} is missing", where, valid=(*COLUMNS, *OPTIONAL), hint=hint)
    texts["seed"] = texts["seed"].str.replace(r"^(\d+)\.0+$", r"\1", regex=True)  # as of a column with an empty cell
    for where in frame["where"][texts["seed"].str.fullmatch(_SUMMARY)]:
        raise bad("the row is no seed, but a summary of several", where, hint="Leave such rows out of the file.")
    values = [_number(value, where) for value, where in zip(frame["value"], frame["where"], strict=True)]
    return texts.assign(value=values, where=frame["where"])


def _melted(frame: DataFrame, metric: str) -> DataFrame:
    """Return a table with the columns system, metric and value; one column for each metric, seed or system is melted.

    Raises:
        PhmrunError: (exit 3) A column occurs twice, or there are no columns of numbers.
    """
    heads = [str(head).strip() for head in frame.columns]
    ours = {*COLUMNS, *OPTIONAL, *SYSTEMS, "score", "task", "dataset", "where"}
    heads = [head.lower() if head.lower() in ours else head for head in heads]
    system = next((name for name in SYSTEMS if name in heads), "system")
    names = {system: "system", "score": "metric" if "value" in heads and "metric" not in heads else "value"}
    names |= {"run": "seed"} if system != "run" and "seed" not in heads else {}
    names |= {"task": "dataset"} if "dataset" not in heads else {}
    heads = [names.get(head, head) if names.get(head) not in heads else head for head in heads]
    file, colon, _ = (str(frame["where"].iloc[0]) if len(frame) else "").rpartition(":")
    where = f"{file}:1" if colon else ""  # rows of no file have no line of heads
    if twice := [head for head in heads if heads.count(head) > 1]:
        raise bad(f"the column {twice[0]!r} occurs twice", where, hint="Keep the one that is meant.")
    frame = frame.set_axis(heads, axis=1)
    if "value" not in heads:
        frame = _wide(frame, where)
    if "metric" not in frame and metric:
        frame = frame.assign(metric=metric.rpartition("/")[2] if "dataset" in frame else metric)
    if "dataset" in frame and "metric" in frame:
        frame = frame.drop(columns="task", errors="ignore")  # it would be the dataset of a second call
        frame = frame.assign(metric=frame.pop("dataset").map(_text) + "/" + frame["metric"].map(_text))
    return frame


def _wide(frame: DataFrame, where: str) -> DataFrame:
    """Return a table of one column for each metric, seed or system in long form.

    Beside systems, columns are seeds if they are named so, else metrics; one without a heading is an index. Without
    systems, columns are systems, and rows without a seed are numbered. Empty cells are left out.
    """
    if "system" in frame:
        frame = frame.drop(columns="", errors="ignore")
    if "system" not in frame and not {"seed", "item", "metric"} & {*frame} and len(frame.columns) > 1:
        first = frame.columns[0]
        if first != "where" and not _has_numbers(frame[first]):  # names in front of scores, under any heading
            frame = frame.rename(columns={first: "system"})
        elif first == "":
            frame = frame.rename(columns={first: "seed"})
    ids = [head for head in frame if head in (*COLUMNS, *OPTIONAL, "dataset", "where")]
    scores = [head for head in frame if head not in ids and _has_numbers(frame[head])]
    if not scores:
        shown = ", ".join(map(repr, frame.columns.drop("where"))) or "none"
        raise bad(f"no column has scores; the columns are {shown:.160}", where, hint=EXAMPLE)
    kind = "system"
    if "system" in frame:
        kind = "seed" if all(map(_SEED.fullmatch, scores)) and "seed" not in frame else "metric"
    elif "seed" not in frame and "item" not in frame:
        frame, ids = frame.assign(seed=[str(number) for number in range(1, len(frame) + 1)]), [*ids, "seed"]
    if kind == "metric" and "metric" in frame:
        raise bad(f"{scores[0]!r} is no seed, and the table has a column 'metric'", where, hint=EXAMPLE)
    long = frame.melt(ids, scores, kind, "value")
    if kind == "seed":
        long["seed"] = long["seed"].str.extract(_SEED, expand=False)
    return long[long["value"].map(_text) != ""]


def _has_numbers(column: Any) -> bool:
    """True if a column of a table has a number, or only texts "nan" of diverged runs."""
    return bool(pandas.to_numeric(column, errors="coerce").notna().any()) or {*map(_text, column)} - {""} == {"nan"}


def _files(path: Path) -> list[Path]:
    """Return the harness files below a folder, at any depth and sorted; any other path is returned alone.

    Raises:
        PhmrunError: (exit 3) The folder has no harness file.
    """
    if not path.is_dir():
        return [path]
    files = sorted(path.rglob(f"{SAMPLES}*.jsonl")) or sorted(path.rglob(f"{RESULTS}*.json"))
    if not files:
        what = f"the folder has no {SAMPLES}*.jsonl and no {RESULTS}*.json"
        raise bad(what, str(path), hint="`lm_eval --output_path DIR --log_samples` writes them.")
    return files


def _read(path: Path, system: str, metric: str) -> DataFrame:
    """Return the rows of a file in long form, each with its line at "where"; see :func:`read_rows`.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, or has none of the forms.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise bad(f"the file cannot be read: {getattr(error, 'strerror', error)}", str(path)) from error
    if not text.strip():
        raise bad("the file is empty", str(path), hint=EXAMPLE)
    if not text.lstrip().startswith("{"):
        return _melted(_table(path, text), metric)
    with suppress(ValueError):  # of lines, which are several objects
        content = parse_json(text)
        if isinstance(content.get("results"), Mapping):
            return DataFrame(_results(content, path, system))
    records = [
        {**_json(line, f"{path}:{number}"), "where": f"{path}:{number}"}
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if "doc_id" in records[0] and "metrics" in records[0]:
        return DataFrame(_samples(records, path, system or path.parent.name))
    for record in records:  # a NaN would be an empty cell
        record |= {key: "nan" for key, value in record.items() if value != value and key not in OPTIONAL}
    return _melted(DataFrame(records, dtype=object), metric)


def _table(path: Path, text: str) -> DataFrame:
    """Return the texts of a CSV or TSV file with its heads and the line of each row.

    Raises:
        PhmrunError: (exit 3) A line has another number of columns than the first.
    """
    first = text.lstrip("\n").split("\n", 1)[0]
    separator = max("\t,;", key=first.count)
    options: Any = {"sep": separator, "header": None, "dtype": str, "keep_default_na": False, "skipinitialspace": True}
    try:
        frame = pandas.read_csv(io.StringIO(text), skip_blank_lines=False, **options)
    except pandas.errors.ParserError as error:
        what = str(error).rpartition("C error: ")[2].strip()
        line = re.search(r"line (\d+)", what)
        raise bad(f"the line is not CSV: {what}", f"{path}:{line[1] if line else 1}", hint=EXAMPLE) from error
    lines = frame.index + 1
    filled = ~frame.apply(lambda column: column.isna() | (column == "")).all(axis=1)
    frame, lines = frame[filled], lines[filled]
    where = [f"{path}:{line}" for line in lines]
    if len(frame) < 2:
        raise bad(f"there are no scores; the first line is: {first:.60}", f"{path}:1", hint=EXAMPLE)
    return frame[1:].set_axis(frame.iloc[0].to_list(), axis=1).assign(where=where[1:])


def _json(text: str, where: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        PhmrunError: (exit 3) The text is none, or repeats a key.
    """
    try:
        record = parse_json(text, unique=True)
    except (ValueError, PhmrunError) as error:
        raise bad(f"the line is not JSON: {error}", where) from error
    if not isinstance(record, dict):
        raise bad("the line is not a JSON object", where)
    return record


def _samples(records: Sequence[Mapping[str, Any]], path: Path, system: str) -> list[dict[str, Any]]:
    """Return the scores of a harness file of samples, without seeds.

    A metric is called TASK/METRIC, or "TASK/METRIC,FILTER" if the file has several filters. An item is
    "doc_id:doc_hash". Values that are no numbers are left out.

    Raises:
        PhmrunError: (exit 3) A line has no doc_id or metrics.
    """
    task = path.name.removeprefix(SAMPLES).removesuffix(".jsonl").rpartition("_")[0] or path.stem
    several = len({str(record.get("filter", "none")) for record in records}) > 1
    rows = []
    for record in records:
        if not isinstance(record.get("metrics"), list) or "doc_id" not in record:
            raise bad("the line has no doc_id or metrics", record["where"])
        suffix = f",{record['filter']}" if several else ""
        # With the document's checksum, since another version of the task has other items.
        item = f"{record['doc_id']}:{record.get('doc_hash', '')}"
        for name in record["metrics"]:
            if isinstance(value := record.get(name), int | float):
                facts = {"system": system, "metric": f"{task}/{name}{suffix}", "value": value, "item": item}
                rows.append({**facts, "where": record["where"]})
    return rows


def _results(content: Mapping[str, Any], path: Path, system: str) -> list[dict[str, Any]]:
    """Return the scores of a harness file of results: TASK/METRIC, or "TASK/METRIC,FILTER"; without standard errors."""
    name = system or str(content.get("model_name") or path.parent.name)
    settings = content.get("config")
    model = json.dumps(settings.get("model_args", str(path)) if isinstance(settings, Mapping) else str(path))
    return [
        {
            "system": name,
            "metric": f"{task}/{key.removesuffix(',none')}",
            "value": value,
            "fixed": True,
            "model_args": model,
            "where": str(path),
        }
        for task, numbers in content["results"].items()
        for key, value in (numbers.items() if isinstance(numbers, Mapping) else ())
        if isinstance(value, int | float) and "," in key and "_stderr" not in key
    ]


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


def _text(value: Any) -> str:
    """Return a label as text without surrounding spaces.

    Integral floats lose their ".0"; None and NaN are empty.
    """
    if isinstance(value, str):
        return value.strip()
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
