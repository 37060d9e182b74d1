"""The reproducibility checklists of conferences, filled from what the runs of a sweep have on record.

``acl``: sections B and C of the Responsible NLP Research checklist of the ACL Rolling Review, and the reproducibility
criteria that EMNLP has asked for since 2020 (Dodge et al. 2019, "Show Your Work"). ``neurips``: the NeurIPS paper
checklist. The questions are given in our words. What no record can answer is left blank for the authors.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from phmrun.config import semantic_values
from phmrun.datasets import CATALOGUE, Dataset
from phmrun.ledger import Run, RunSummary
from phmrun.ledger.card import duration, number
from phmrun.ledger.environment import read_segments, summary
from phmrun.ledger.history import BEST
from phmrun.report.document import Document, Listing, Section, Text
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import CellState, CellStatus
from phmrun.sweeps.tuning import Tuned

BLANK = "✎ to be filled in by the authors"
_MOST = 12


class Evidence:
    """What the runs of a sweep have on record.

    Args:
        plan: The sweep.
        statuses: Its cells, as they stand.
        tuned: Its rows with their trials; empty where it tunes nothing.
    """

    def __init__(self, plan: Plan, statuses: Sequence[CellStatus], tuned: Sequence[Tuned] = ()) -> None:
        self.plan = plan
        self.statuses = statuses
        self.tuned = tuned
        self.done: list[tuple[str, RunSummary]] = [
            (status.cell.label, status.run) for status in statuses if status.run and status.state is CellState.DONE
        ]

    @cached_property
    def segments(self) -> list[dict[str, Any]]:
        """The environments of all runs."""
        return [entry for _, run in self.done for entry in read_segments(Run(run.path))]

    @cached_property
    def datasets(self) -> list[Dataset]:
        """The catalogue's entries of the data."""
        names = dict.fromkeys(status.cell.config.data.name for status in self.statuses if status.cell.config)
        return [CATALOGUE.get(name) for name in names if name in CATALOGUE.names()]

    @cached_property
    def seeds(self) -> dict[str, int]:
        """Finished runs by row, seeds apart."""
        counts: dict[str, int] = {}
        for label, _ in self.done:
            row = " · ".join(part for part in label.split(" · ") if not part.startswith("seed "))
            counts[row] = counts.get(row, 0) + 1
        return counts


Answer = Callable[[Evidence], str]


class Item(NamedTuple):
    """A question, and what answers it; nothing does where only the authors can."""

    number: str
    question: str
    answer: Answer | None = None


class Filled(NamedTuple):
    """A question with its answer; empty where the record has none."""

    number: str
    question: str
    answer: str


def fill(name: str, plan: Plan, statuses: Sequence[CellStatus], tuned: Sequence[Tuned] = ()) -> list[Filled]:
    """The items of a checklist with what the record says to them.

    Args:
        name: One of :data:`CHECKLISTS`.
        plan: The sweep.
        statuses: Its cells, as they stand.
        tuned: Its rows with their trials.
    """
    found = Evidence(plan, statuses, tuned)
    return [Filled(item.number, item.question, item.answer(found) if item.answer else "") for item in CHECKLISTS[name]]


def document(name: str, plan: Plan, items: Sequence[Filled]) -> Document:
    """The filled checklist as a page."""
    filled = sum(bool(item.answer) for item in items)
    rows = [(item.number, item.question, item.answer or BLANK) for item in items]
    opening = f"{filled} of {len(items)} items are filled from the records of the runs of {plan.sweep.name}."
    title = f"Reproducibility checklist ({name}): {plan.sweep.title or plan.sweep.name}"
    return Document(title, [Text(opening)], [Section("Items", [Listing(("item", "question", "answer"), rows)])])


def _lines(lines: Iterable[str]) -> str:
    """A few lines as one text, each once."""
    found = list(dict.fromkeys(line for line in lines if line))
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more


def _infrastructure(found: Evidence) -> str:
    return _lines(summary(entry) for entry in found.segments)


def _runtime(found: Evidence) -> str:
    times = [(label, run.status.seconds) for label, run in found.done if run.status]
    return _lines(f"{label}: {duration(seconds)}" for label, seconds in times)


def _budget(found: Evidence) -> str:
    if not found.done:
        return ""
    wall = sum(run.status.seconds for _, run in found.done if run.status)
    cpu = sum(float(entry.get("cpu_seconds") or 0) for entry in found.segments)
    return f"{len(found.done)} runs, {duration(wall)} of training in all, {duration(cpu)} of processor time"


def _parameters(found: Evidence) -> str:
    rows = ((label, run.about("parameters")) for label, run in found.done)
    return _lines(f"{label}: {count:,}" for label, count in rows if isinstance(count, int))


def _size_and_budget(found: Evidence) -> str:
    return _lines([_parameters(found), _budget(found), _infrastructure(found)]) if found.done else ""


def _scores(found: Evidence) -> Iterator[str]:
    for label, run in found.done:
        name = run.main_score
        best, value = run.score(BEST), run.score(name) if name else None
        if name and value is not None and best is not None:
            yield f"{label}: {name} {number(value)}, best validation {number(best)}"


def _validation(found: Evidence) -> str:
    return _lines(_scores(found))


def _metrics(found: Evidence) -> str:
    entries = ((run.main_score, run.metrics.get(run.main_score or "")) for _, run in found.done)
    signed = (f"{name}: {entry.get('signature')}" for name, entry in entries if isinstance(entry, dict))
    return _lines(signed)


def _search(found: Evidence) -> str:
    varied = {key: list(dict.fromkeys(map(str, values))) for key, values in found.plan.sweep.file.grid.items()}
    grid = [f"{key} in {{{', '.join(values)}}}" for key, values in varied.items()]
    if found.tuned:
        return _lines([*grid, *(_trials_of(row) for row in found.tuned)])
    return _lines([*grid, f"no other value was searched for: all settings stand in {found.plan.sweep.where}"])


def _trials_of(row: Tuned) -> str:
    """What a row tried on validation, and what was chosen."""
    keys = dict.fromkeys(key for values, _ in row.trials for key in values)
    tried = {key: dict.fromkeys(str(values[key]) for values, _ in row.trials) for key in keys}
    space = ", ".join(f"{key} in {{{', '.join(values)}}}" for key, values in tried.items())
    best = ", ".join(f"{key} = {value}" for key, value in (row.values or {}).items()) or "not yet chosen"
    return f"{row.label}: {len(row.trials)} trials on validation, {space}: {best}"


def _trials(found: Evidence) -> str:
    trials = (f"{row.label}: {len(row.trials)} trials" for row in found.tuned)
    return _lines([*trials, *(f"{row or 'all'}: {count}" for row, count in found.seeds.items())])


def _settings(found: Evidence) -> str:
    changed = []
    for status in found.statuses:
        if status.cell.config:
            values = semantic_values(status.cell.config)
            changed.append(", ".join(f"{key}={value}" for key, value in values.items() if key != "seed"))
    return _lines(changed)


def _spread(found: Evidence) -> str:
    if not any(count > 1 for count in found.seeds.values()):
        return ""
    intervals = any("ci" in entry for _, run in found.done for entry in run.metrics.values() if isinstance(entry, dict))
    text = f"mean and standard deviation over seeds ({_trials(found)})"
    return text + ("; each run's score has a 95 % interval over test items" if intervals else "")


def _statistics(found: Evidence) -> str:
    lines = []
    for _, run in found.done:
        splits = Run(run.path).parameters().get("data", {}).get("splits", {})
        for split, facts in splits.items() if isinstance(splits, dict) else ():
            counts = [f"{value:,} {key}" for key, value in facts.items() if type(value) is int]
            lines.append(f"{run.about('data')} {split}: {', '.join(counts)}")
    return _lines(lines)


def _splits(found: Evidence) -> str:
    lines = []
    for _, run in found.done:
        record = Run(run.path).data()
        for name, split in (record.splits if record else {}).items():
            lines.append(f"{run.about('data')} {name}: SHA-256 {split.sha256}")
    return _lines(lines)


def _creators(found: Evidence) -> str:
    return _lines(f"{each.name}: {each.homepage or each.summary}" for each in found.datasets if each.citation)


def _licences(found: Evidence) -> str:
    return _lines(f"{each.name}: {each.licence}" for each in found.datasets)


def _documentation(found: Evidence) -> str:
    return _lines(f"{each.name}: {each.summary}" for each in found.datasets)


def _downloads(found: Evidence) -> str:
    return _lines(f"phmrun data fetch {each.name} ({each.homepage or 'see its entry'})" for each in found.datasets)


def _packages(found: Evidence) -> str:
    versions = (entry.get("packages") or {} for entry in found.segments)
    return _lines(", ".join(f"{name} {version}" for name, version in each.items()) for each in versions)


def _again(found: Evidence) -> str:
    commits = dict.fromkeys(str((entry.get("code") or {}).get("commit", "")) for entry in found.segments)
    versions = _lines(f"commit {commit}" for commit in commits if commit)
    commands = f"phmrun sweep {found.plan.sweep.where}; phmrun runs reproduce RUN compares a run bit for bit"
    return f"{commands}; {versions}" if versions else commands


def _code_and_data(found: Evidence) -> str:
    return _lines([_again(found), _downloads(found)])


_REPRODUCIBILITY = (
    Item("R1", "On what machines was computed?", _infrastructure),
    Item("R2", "How long did each approach take on average?", _runtime),
    Item("R3", "How many parameters has each model?", _parameters),
    Item("R4", "What is the validation score beside each test score?", _validation),
    Item("R5", "How exactly is each metric computed?", _metrics),
    Item("R6", "Within what bounds were hyperparameters searched, and how were they chosen?", _search),
    Item("R7", "How many trials and runs were made for each row?", _trials),
    Item("R8", "What are the settings of the reported models?", _settings),
    Item("R9", "How many examples has each part of the data?", _statistics),
    Item("R10", "Which files are training, validation and test data?", _splits),
    Item("R11", "Where can the data be downloaded?", _downloads),
    Item("R12", "Where is the code, with its dependencies and the commands that give the results?", _again),
)

CHECKLISTS: dict[str, tuple[Item, ...]] = {
    "acl": (
        Item("A1", "Are the limitations of the work described?"),
        Item("A2", "Are potential risks of the work discussed?"),
        Item("B1", "Are the creators of the data cited?", _creators),
        Item("B2", "Are the licences of the data given?", _licences),
        Item("B3", "Is the use of the data what they were intended for?"),
        Item("B4", "Was checked whether the data name or offend people?"),
        Item("B5", "Are the data documented: domain, language?", _documentation),
        Item("B6", "How many examples has each part of the data?", _statistics),
        Item("C1", "Parameters, computing budget and machines?", _size_and_budget),
        Item("C2", "Settings, the search for them, and the best values found?", lambda f: _lines([_search(f)])),
        Item("C3", "Do results say what they are over: runs, means, error bars?", _spread),
        Item("C4", "Versions and settings of the packages used?", _packages),
        Item("D", "Were people asked to annotate or to take part?"),
        Item("E", "Were AI assistants used, and how?"),
        *_REPRODUCIBILITY,
    ),
    "neurips": (
        Item("1", "Do the claims match what is shown?"),
        Item("2", "Are limitations discussed?"),
        Item("3", "Are assumptions and proofs of theoretical results complete?"),
        Item("4", "Is what is needed to reproduce the results disclosed?", _again),
        Item("5", "Are code and data open, with instructions?", _code_and_data),
        Item("6", "Are splits, settings and how they were chosen given?", lambda f: _lines([_settings(f), _search(f)])),
        Item("7", "Are error bars or significance reported, and over what?", _spread),
        Item("8", "On what machines, with how much memory, for how long was computed?", _size_and_budget),
        Item("9", "Does the work follow the code of ethics?"),
        Item("10", "Are societal impacts discussed?"),
        Item("11", "Are there safeguards against misuse of what is released?"),
        Item(
            "12", "Are licences and creators of existing assets named?", lambda f: _lines([_licences(f), _creators(f)])
        ),
        Item("13", "Are new assets documented?"),
        Item("14", "Are instructions and pay of participants given?"),
        Item("15", "Were risks to participants reviewed?"),
        Item("16", "Is the use of language models in the method declared?"),
    ),
}
"""The checklists by name."""
