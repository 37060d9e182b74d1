"""Human-readable names, units and figures of scores, baselines, counts and times."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phmrun.documents import flat
from phmrun.escaping import shortened
from phmrun.files import data_dir
from phmrun.metric import OF, find_baseline, find_metric, part_of

SERVING = "serving "  # start of the names of measurements by `phmrun export --compare` in bench.json
_NUMBER = re.compile(r"[(]?[-+−]?[\d,]+(\.\d+)?( ± [\d.]+)?[)*‡≈]*")
SPLITS = {"val": "validation", "validation": "validation", "train": "training", "dev": "validation", "test": "test"}
FIGURES = {"gradient_norm": "norm of the gradient", "lr": "learning rate"}
"""Names of the history's figures that are not metrics."""


def title(score: str) -> str:
    """Return a score's name in words, with its unit in parentheses.

    "test/accuracy-of-copy" becomes "test accuracy of copy (%)". The splits val and dev are "validation", train is
    "training"; gradient_norm and lr have names of their own. The name of an unregistered metric has spaces for
    underscores, and no unit.
    """
    split, _, name = score.rpartition("/")
    plain, of, baseline = name.partition(OF)
    metric = find_metric(score) if split != "time" else None
    words = metric.words if metric else FIGURES.get(plain, plain.replace("_", " "))
    part = part_of(score, metric) if metric else ""
    text = " ".join(filter(None, [SPLITS.get(split, split), words, part, f"of {baseline}" if of else ""]))
    return f"{text} ({metric.unit})" if metric and metric.unit else text


def head(column: str) -> str:
    """Return a column's head as in papers, with a capital.

    "test/bleu" becomes "BLEU", "parameters" "Params"; "layer.n" stays "n". Other columns have the words of
    :func:`title`, without "test".
    """
    last = column.rpartition(".")[2]
    option = {"parameters": "Params", "n": "n"}.get(last) or title(last)
    words = title(column).removeprefix("test ") if "/" in column else option
    return words if last == "n" else words[:1].upper() + words[1:].replace("_", " ")


def row_name(labels: Mapping[str, str]) -> str:
    """Return a row's name, layer first: "phm n=2, lr 0.003".

    ``labels`` are texts by dotted key; empty texts are left out. Embedding and output follow the layer with their
    names; options of the three are "n=2". Of other keys, the last part precedes the text, except ``row``, ``task`` and
    ``name``.
    """
    parts: dict[str, list[str]] = {"layer": [], "embedding": [], "output": []}
    others = []
    for key, text in labels.items():
        section, _, option = key.partition(".")
        last = key.rpartition(".")[2].replace("_", " ")
        if text and section not in parts:
            others.append(text if last in ("row", "task", "name") else f"{last} {text}")
        elif text and option:
            parts[section].append(f"{option}={text}")
        elif text:
            parts[section].insert(0, text if section == "layer" else f"{section} {text}")
    return ", ".join([*(" ".join(words) for words in parts.values() if words), *others])


def explained(scores: Sequence[str]) -> list[str]:
    """Return a line "name: rule" for each registered baseline among scores.

    A baseline is what follows "-of-" in a score's name. Each has one line, in order of first appearance.
    """
    names = dict.fromkeys(name.partition(OF)[2] for name in scores if OF in name)
    baselines = [find_baseline(name) for name in names]
    return [f"{baseline.name}: {baseline.meaning}" for baseline in baselines if baseline]


def counts_in_words(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return counts, memory and data of ``parameters.json`` as table rows.

    A row has words and a figure with its unit. Memory is in MB (10⁶ bytes). The trained total is left out if it is the
    total, and a share of the dense network if it is 100 %. Values of a wrong type are left out, as is memory from 10¹⁸
    bytes on.
    """
    total, dense = parameters.get("total"), parameters.get("dense_total")
    counts = {key: parameters[key] for key in _FACTS if isinstance(parameters.get(key), int)}
    if counts.get("trained_total") == total:
        counts.pop("trained_total", None)
    rows = [(_FACTS[key], f"{count:,}") for key, count in counts.items()]
    if isinstance(total, int) and isinstance(dense, int) and (share := _share(total, dense)):
        rows.insert(1, ("share of the dense network", share))
    for scope, entry in _mapping(parameters, "by_scope").items():
        if isinstance(entry, Mapping) and isinstance(entry.get("count"), int):
            share = _share(entry["count"], entry.get("dense"))
            note = f" ({share} of dense)" if share else ""
            rows.append((f"{scope_in_words(scope)}, parameters", f"{entry['count']:,}{note}"))
    for kind, size in _mapping(parameters, "memory").items():
        # A damaged file may have 1e300, which would be printed with all its digits.
        if isinstance(size, int | float) and abs(size) < 1e18:
            rows.append((f"memory of {'the ' if kind == 'optimizer' else ''}{kind}, 32 bits", f"{size / 1e6:,.1f} MB"))
    data = _mapping(parameters, "data")
    for part, facts in {**_mapping(data, "splits"), **{key: data[key] for key in data if key != "splits"}}.items():
        named = _figures(facts if isinstance(facts, Mapping) else {"": facts})
        rows += [(f"{part}, {name}" if name else f"data, {part}", figure) for name, figure in named]
    return rows


def scope_in_words(scope: str) -> str:
    """Return the name of a network part in words.

    Underscores become spaces; the parser's "letter" becomes "character".
    """
    return scope.replace("_", " ").replace("letter", "character")


_FACTS = {
    "total": "parameters",
    "dense_total": "parameters of the dense network",
    "trained_total": "parameters in training",
    "stored_total": "parameters stored in a checkpoint",
    "served_total": "parameters served, updates merged",
    "multiplications": "multiplications per vector",
    "steps_per_epoch": "optimizer steps per epoch",
}
"""Names of the keys of ``parameters.json``."""


def _share(count: Any, whole: Any) -> str:
    """Return a count in percent of another: "12.5%".

    The result is empty if both are equal, one is no number, or ``whole`` is 0.
    """
    try:
        return f"{count / whole:.1%}" if count != whole else ""
    except (TypeError, ArithmeticError):
        return ""


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping at a key.

    The result is empty if it is missing or not a mapping.
    """
    value = values.get(key)
    return value if isinstance(value, Mapping) else {}


def _figures(facts: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return the numbers among facts as rows of words and figures.

    Floats whose last key contains "rate" are in percent, others have two decimals. Integers have commas. Nested facts
    have the words of all their keys, after ``before``. Other values are left out.
    """
    rows: list[tuple[str, str]] = []
    for key, value in facts.items():
        words = f"{before}{key.replace('_', ' ')}"
        if isinstance(value, Mapping):
            rows += _figures(value, f"{words} ")
        elif isinstance(value, float):
            rows.append((words, f"{value:.2%}" if "rate" in key else f"{value:,.2f}"))
        elif isinstance(value, int) and not isinstance(value, bool):
            rows.append((words, f"{value:,}"))
    return rows


def duration(seconds: float) -> str:
    """Format seconds as ``42 s``, ``12 min`` or ``3 h 20 min``.

    Whole seconds are used below 120 s, minutes (rounded) below 120 min.
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def number(value: Any) -> str:
    """Format a value for a table's cell.

    Integers have commas between thousands. Floats have two decimals and commas; below 1 in absolute value, at most four
    significant digits. ``None`` gives an empty text; booleans and texts are returned as text.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1 else f"{value:,.2f}"


def is_number(value: Any) -> bool:
    """True if a value is a number or the text of one.

    Booleans are numbers here. A text may have an error, marks and parentheses: ``31.20 ± 0.41*``. An exponent is not
    accepted.
    """
    return isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def score_row(name: str, score: Any) -> tuple[str, str, str, str]:
    """Return a score's table row: name, value, notes, signature.

    A float value with a sample size has two decimals; others are those of :func:`number`.

    The notes are the sample size with its unit (or the unit alone), the 95 % interval, and further figures (also those
    below "extras") except lists. An interval that is no pair of numbers is left out. A score that is a bare number has
    empty notes and an empty signature.
    """
    if not isinstance(score, Mapping):
        return name, number(score), "", ""
    main, extras = ("value", "signature", "n", "unit", "ci", "extras"), score.get("extras")
    others = {key: value for key, value in score.items() if key not in main}
    further = flat({**others, **(extras if isinstance(extras, Mapping) else {})})
    notes = [f"{number(score['n'])} {score.get('unit', '')}".rstrip()] if "n" in score else []
    notes += [str(score["unit"])] if score.get("unit") and not notes else []
    # The format's "z" shows 0.00 instead of -0.00.
    ends = score.get("ci")
    if isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, int | float) for end in ends):
        notes.append("95 %: {:z,.2f} – {:z,.2f}".format(*ends))
    notes += [
        f"{re.sub('[._]', ' ', key)} {number(value)}" for key, value in further.items() if not isinstance(value, list)
    ]
    value = score.get("value")
    shown = f"{value:z,.2f}" if "n" in score and isinstance(value, float) else number(value)
    return name, shown, ", ".join(notes), str(score.get("signature", ""))


SERVING_COLUMNS = (
    "format",
    "parameters",
    "MB on disk",
    "MB in memory",
    "ms, batch 1",
    "ms, batch 32",
    "score",
    "changed",
)
"""Columns of a table of :func:`serving_row`."""


def serving_row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a measured format for a table.

    They are label, parameters, MB (10⁶ bytes) on disk and in memory, ms with batch 1 and 32, score with metric, changed
    sentences.

    Figures have two decimals, ``–`` if they were not measured; a missing count of parameters is 0.
    """

    def shown(name: str, scale: float = 1.0) -> str:
        """Return a measurement times ``scale`` with two decimals, or ``–``."""
        value = entry.get(name)
        return f"{value * scale:,.2f}" if isinstance(value, int | float) else "–"

    score = f"{shown('score')} {entry.get('metric', '')}".rstrip()
    changed = f"{entry['changed']:,} of {entry.get('sentences', 0):,}" if entry.get("changed") is not None else "–"
    sizes = (f"{entry.get('parameters', 0):,}", shown("bytes", 1e-6), shown("peak_memory", 1e-6))
    return str(entry.get("label")), *sizes, shown("single_ms"), shown("batch_ms"), score, changed


def shared(text: str) -> str:
    """Shorten paths below ``$PHMRUN_DATA`` or the home (``~``) in a text.

    A text without a path separator is returned unchanged.
    """
    if os.sep not in text:
        return text
    return shortened(text, {"$PHMRUN_DATA": data_dir(), "~": Path.home()})
