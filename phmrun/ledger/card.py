"""The run's own page: a ``README.md`` that tells a reader what the model is, how well it does, and how to use it."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from phmrun.documents import flat
from phmrun.errors import PhmrunError
from phmrun.escaping import fenced, markdown, shortened
from phmrun.files import data_dir, write_text
from phmrun.ledger.description import Description, describe
from phmrun.ledger.run import Run
from phmrun.ledger.status import State, Status
from phmrun.ledger.wording import counts_in_words, explained

_NUMBER = re.compile(r"[(]?[-+−]?[\d,]+(\.\d+)?( ± [\d.]+)?[)*‡≈]*")
_OF_A_SCORE = ("value", "signature", "n", "unit", "ci", "extras")
_OUTCOMES = {
    State.QUEUED: "It has not run yet.",
    State.RUNNING: "It was training when this page was written.",
    State.DONE: "Training is done.",
    State.FAILED: "Training failed.",
    State.INTERRUPTED: "Training was interrupted; the same command continues it.",
}


def write_card(run: Run) -> Path:
    """Writes the page from what the run directory holds now, and returns its path."""
    write_text(run.card_path, card(describe(run)))
    return run.card_path


def card(description: Description) -> str:
    """The page as Markdown."""
    sections = [
        [f"# {markdown(description.id)}", *_opening(description.status)],
        _section("Scores", _scores(description.metrics)),
        _section("Size", _size(description.parameters)),
        _section("Samples", _samples(description.samples)),
        _section("Use", _use(description.id)),
        _section("Not said by the paper", _unsaid(description.config)),
        _section("Configuration", [fenced(shared(description.config), "yaml")] if description.config else []),
        _section("Files", ["| file | what it is |", "|---|---|", *_files(description)]),
    ]
    return "\n".join("\n".join(lines) + "\n" for lines in sections if lines)


def duration(seconds: float) -> str:
    """Seconds as a person says them: ``42 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def number(value: Any) -> str:
    """A figure as a table shows it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1 else f"{value:,.2f}"


def is_number(value: Any) -> bool:
    """Whether a value is a number, or the text of one: ``31.20 ± 0.41*``."""
    return isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def score_row(name: str, score: Any) -> tuple[str, str, str, str]:
    """A score's name, value, what else was measured with it, and its signature."""
    if not isinstance(score, Mapping):
        return name, number(score), "", ""
    extras = score.get("extras")
    further = {key: value for key, value in score.items() if key not in _OF_A_SCORE}
    told = flat({**further, **(extras if isinstance(extras, Mapping) else {})})
    notes = [f"{number(score['n'])} {score.get('unit', '')}".rstrip()] if "n" in score else []
    notes += [str(score["unit"])] if "unit" in score and not notes else []
    notes += ["95 %: {:z,.2f} – {:z,.2f}".format(*score["ci"])] if _is_interval(score.get("ci")) else []
    notes += [
        f"{key.replace('.', ' ').replace('_', ' ')} {number(value)}"
        for key, value in told.items()
        if not isinstance(value, list)
    ]
    value = score.get("value")
    shown = f"{value:z,.2f}" if "n" in score and isinstance(value, float) else number(value)
    return name, shown, ", ".join(notes), str(score.get("signature", ""))


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)


def _opening(status: Status | None) -> list[str]:
    """What the run is and how it ended, in sentences."""
    if status is None:
        return ["", "The status of this run cannot be read."]
    about = status.about
    what = f"A model for the task **{_cell(about.get('task', 'unknown'))}**"
    said = {"on": about.get("data"), "with": about.get("network", about.get("layer")), "and seed": about.get("seed")}
    for word, value in said.items():
        if value is not None:
            what += f" {word} **{_cell(value)}**"
    outcome = _OUTCOMES[status.state].rstrip(".") + (f": {_cell(status.reason)}." if status.reason else ".")
    course = f"{number(status.step)} optimizer steps, {duration(status.seconds)} of training"
    times = ", ".join(
        f"{word} {_cell(time)}" for word, time in (("begun", status.started), ("ended", status.ended)) if time
    )
    return ["", f"{what}.", f"{outcome} {course}{f' ({times})' if times else ''}."]


def _scores(metrics: Mapping[str, Any]) -> list[str]:
    rows = [score_row(name, score) for name, score in metrics.items()]
    table = _table(("score", "value", "also", "signature"), rows)
    legend = [
        "",
        "A signature says exactly how its score was computed.",
        *(f"- {each}" for each in explained([*metrics])),
    ]
    return [*table, *legend] if rows else []


def _size(parameters: Mapping[str, Any]) -> list[str]:
    return _table(("what", "how much"), counts_in_words(parameters))


def _samples(samples: Mapping[str, Any]) -> list[str]:
    return _table(samples["columns"], samples["rows"]) if samples else []


def _use(run_id: str) -> list[str]:
    return [
        "```",
        f"phmrun predict {run_id} < sentences.txt    # one input per line, one output per line",
        f"phmrun eval {run_id} --split test          # scores it again",
        f"phmrun runs show {run_id}",
        "```",
        "",
        "The model knows what its training data taught it and nothing else; check its outputs before relying on them.",
    ]


def _unsaid(config: str) -> list[str]:
    """What the settings say that the paper they follow does not; nothing of a damaged configuration."""
    from phmrun.config.documents import parse_mapping
    from phmrun.config.experiment import unsaid_values

    try:
        values = unsaid_values(parse_mapping(config, "config.yaml")[0])
    except PhmrunError:
        return []
    return _table(("key", "here", "from"), ((key, value, text) for key, (value, text) in values.items()))


def _files(description: Description) -> Iterator[str]:
    for entry in description.entries:
        if entry.meaning and entry.name not in ("README.md", "lock"):
            yield f"| `{entry.name}` | {entry.meaning} |"


def shared(text: str) -> str:
    """A text for a page that others read: with paths below the data directory or the home of the user shortened."""
    if os.sep not in text:
        return text
    return shortened(text, {"$PHMRUN_DATA": data_dir(), "~": Path.home()})


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *lines] if lines else []


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A Markdown table; nothing without rows."""
    body = [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(map(_cell, columns))} |", f"|{'---|' * len(columns)}", *body]


def _cell(value: Any) -> str:
    """A text that cannot break its table."""
    return markdown(shared(str(value)))
