"""Description of a run for readers.

It is the basis of ``runs show`` and of the run's own page (``README.md``).
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phmrun.documents import flat
from phmrun.escaping import fenced, markdown, shortened
from phmrun.files import data_dir, write_text
from phmrun.ledger.directory import entries
from phmrun.ledger.lock import LOCK
from phmrun.ledger.run import Run
from phmrun.ledger.status import State, Status
from phmrun.ledger.wording import counts_in_words, explained

SERVING = "serving "  # start of the names of measurements by `phmrun export --compare` in bench.json
_NUMBER = re.compile(r"[(]?[-+−]?[\d,]+(\.\d+)?( ± [\d.]+)?[)*‡≈]*")
_OUTCOMES = {
    State.QUEUED: "It has not run yet.",
    State.RUNNING: "It was training when this page was written.",
    State.DONE: "Training is done.",
    State.FAILED: "Training failed.",
    State.INTERRUPTED: "Training was interrupted; the same command continues it.",
}


def write_card(run: Run) -> Path:
    """Write the run's page (``README.md``), and return its path.

    It is written atomically, without the run's lock, and is not in the manifest.
    """
    write_text(run.card_path, card(Run(run.path, lenient=True)))
    return run.card_path


def card(run: Run) -> str:
    """Return a run's page as Markdown.

    Sections: scores, size, samples, use, configuration, files. Those without content are left out. Values of damaged
    files are missing. Lock, page, and files that phmrun does not know are not listed. The title is the run's id; a line
    on task, data, seed and state follows.
    """
    samples = run.samples()
    task = str(run.status.about.get("task")) if run.status else None
    scores = [score_row(name, score) for name, score in run.metrics().items()]
    legend = ["", "A signature says exactly how its score was computed."] if scores else []
    files = [file for file in entries(run.path) if file.meaning and file.name not in ("README.md", LOCK)]
    sections = {
        "Scores": [
            *_table(("score", "value", "also", "signature"), scores),
            *legend,
            *(f"- {line}" for line in explained([*run.metrics()], task)),
        ],
        "Size": _table(("what", "how much"), counts_in_words(run.parameters())),
        "Samples": _table(samples["columns"], samples["rows"]) if samples else [],
        "Use": [
            "```",
            f"phmrun predict {run.id} < sentences.txt    # one input per line, one output per line",
            f"phmrun eval {run.id} --split test          # scores it again",
            f"phmrun runs show {run.id}",
            "```",
            "",
            "The model knows what its training data taught it and nothing else; "
            "check its outputs before relying on them.",
        ],
        "Configuration": [fenced(shared(run.config_text), "yaml")] if run.config_text else [],
        "Files": ["| file | what it is |", "|---|---|", *(f"| `{file.name}` | {file.meaning} |" for file in files)],
    }
    parts = [[f"# {markdown(run.id)}", *_opening(run.status)]]
    parts += [[f"## {title}", "", *lines] for title, lines in sections.items() if lines]
    return "\n".join("\n".join(lines) + "\n" for lines in parts)


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


def _opening(status: Status) -> list[str]:
    """Return the page's first lines.

    They name task, data, network, seed, state and duration, or say that the status cannot be read. The first line is
    empty.
    """
    if not status:
        return ["", "The status of this run cannot be read."]
    about = status.about
    model = f"A model for the task **{_cell(about.get('task', 'unknown'))}**"
    labels = {"on": about.get("data"), "with": about.get("network", about.get("layer")), "and seed": about.get("seed")}
    for word, value in labels.items():
        if value is not None:
            model += f" {word} **{_cell(value)}**"
    outcome = _OUTCOMES[status.state].rstrip(".") + (f": {_cell(status.reason)}." if status.reason else ".")
    course = f"{number(status.step)} optimizer steps, {duration(status.seconds)} of training"
    moments = {"begun": status.started, "ended": status.ended}
    times = ", ".join(f"{word} {_cell(time)}" for word, time in moments.items() if time)
    return ["", f"{model}.", f"{outcome} {course}{f' ({times})' if times else ''}."]


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


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a Markdown table; empty without rows."""
    body = [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(map(_cell, columns))} |", f"|{'---|' * len(columns)}", *body]


def _cell(value: Any) -> str:
    """Return the text of a table's cell for Markdown.

    Paths are shortened, and markup is escaped.
    """
    return markdown(shared(str(value)))
