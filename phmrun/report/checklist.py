"""Reproducibility checklists of conferences, filled from the records of a sweep's runs.

``acl``: sections B and C of the Responsible NLP Research checklist of the ACL Rolling Review, and the reproducibility
criteria of EMNLP since 2020 (Dodge et al. 2019, "Show Your Work"). ``neurips``: the NeurIPS paper checklist. The
questions are in our words. Items without a record stay blank for the authors.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.config import Experiment, LayerConfig, semantic_values
from phmrun.datasets import CATALOGUE
from phmrun.ledger import RecordedRun
from phmrun.ledger.card import duration, number
from phmrun.ledger.environment import summary
from phmrun.ledger.history import BEST
from phmrun.ledger.recorded_config import layer_label
from phmrun.ledger.segment import read_segments
from phmrun.report.document import Document, Listing, Section, Text
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import CellState, CellStatus
from phmrun.sweeps.selection import label_of
from phmrun.sweeps.tuning import Tuned

BLANK = "✎ to be filled in by the authors"
_MOST = 12
BUILTIN = "builtin"


class Item(NamedTuple):
    """Question with the names of the records that answer it.

    ``records`` is empty if only the authors can answer.
    """

    number: str
    question: str
    records: tuple[str, ...] = ()


class Filled(NamedTuple):
    """Question with its answer; empty without a record."""

    number: str
    question: str
    answer: str


def fill(name: str, plan: Plan, statuses: Sequence[CellStatus], tuned: Sequence[Tuned] = ()) -> list[Filled]:
    """Answer the items of one of :data:`CHECKLISTS`.

    The items are in the checklist's order. The answers are from the records of finished runs. An answer joins its
    records with "; "; it is empty without a record.

    Raises:
        KeyError: There is no such checklist.
    """
    done = [(status.cell.label, status.run) for status in statuses if status.run and status.state is CellState.DONE]
    segments = [entry for _, run in done for entry in read_segments(run.run)]
    answers = _of_runs(done, segments) | _of_settings(plan, statuses, tuned, done) | _of_data(statuses, done)
    commits = dict.fromkeys(str((entry.get("code") or {}).get("commit", "")) for entry in segments)
    commands = f"phmrun sweep {plan.sweep.where}; phmrun runs reproduce RUN compares a run bit for bit"
    versions = _lines(f"commit {commit}" for commit in commits if commit)
    answers["again"] = f"{commands}; {versions}" if versions else commands
    return [
        Filled(item.number, item.question, _lines(answers[record] for record in item.records))
        for item in CHECKLISTS[name]
    ]


def document(name: str, plan: Plan, items: Sequence[Filled]) -> Document:
    """Return the filled checklist as a page.

    Empty answers become "✎ to be filled in by the authors". The opening has the number of filled items.
    """
    filled = sum(bool(item.answer) for item in items)
    rows = [(item.number, item.question, item.answer or BLANK) for item in items]
    opening = f"{filled} of {len(items)} items are filled from the records of the runs of {plan.sweep.name}."
    title = f"Reproducibility checklist ({name}): {plan.sweep.title or plan.sweep.name}"
    return Document(title, [Text(opening)], [Section("Items", [Listing(("item", "question", "answer"), rows)])])


def _lines(lines: Iterable[str]) -> str:
    """Join distinct nonempty lines with "; ".

    At most 12 are joined, in order; "and N more" follows for the others.
    """
    distinct = list(dict.fromkeys(line for line in lines if line))
    more = f"; and {len(distinct) - _MOST} more" if len(distinct) > _MOST else ""
    return "; ".join(distinct[:_MOST]) + more


def _of_runs(done: Sequence[tuple[str, RecordedRun]], segments: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the records of the finished runs, as texts by name.

    Keys: machines, times (means by row), budget (runs, training and processor time), parameters, validation (beside
    each main score), metrics (signatures of the main scores), packages. Unknown ones are empty.
    """
    times = [(label, run.status.seconds) for label, run in done if run.status]
    counts = [(label, run.about("parameters")) for label, run in done]
    budget, scores, metrics = "", [], []
    if done:
        wall = duration(sum(seconds for _, seconds in times))
        cpu = duration(sum(float(entry.get("cpu_seconds") or 0) for entry in segments))
        budget = f"{len(done)} runs, {wall} of training in all, {cpu} of processor time"
    for label, run in done:
        name = run.main_score
        best, value = run.score(BEST), run.score(name) if name else None
        if name and value is not None and best is not None:
            scores.append(f"{label}: {name} {number(value)}, best validation {number(best)}")
        entry = run.metrics.get(name or "")
        if isinstance(entry, dict):
            metrics.append(f"{name}: {entry.get('signature')}")
    packages = [entry.get("packages") or {} for entry in segments]
    return {
        "machines": _lines(summary(entry) for entry in segments),
        "times": _lines(f"{row}: {duration(sum(some) / len(some))} on average" for row, some in _by_row(times).items()),
        "budget": budget,
        "parameters": _lines(f"{_row(label)}: {count:,}" for label, count in counts if isinstance(count, int)),
        "validation": _lines(scores),
        "metrics": _lines(metrics),
        "packages": _lines(
            ", ".join(f"{name} {version}" for name, version in versions.items()) for versions in packages
        ),
    }


def _of_settings(
    plan: Plan, statuses: Sequence[CellStatus], tuned: Sequence[Tuned], done: Sequence[tuple[str, RecordedRun]]
) -> dict[str, str]:
    """Return the records of the settings, as texts by name.

    Keys: search, settings, trials, spread. ``search`` has the grid, and each tuned row's trials, values and choice; it
    says so if nothing was tuned. ``settings`` has those that all cells share, then each cell's others. ``trials`` has
    the numbers of trials and of finished seeds by row. ``spread`` is empty unless a row has several finished seeds.
    """
    search = []
    for key, values in plan.sweep.file.grid.items():
        search.append(f"{key} in {{{', '.join(dict.fromkeys(map(label_of, values)))}}}")
    if not tuned:
        search.append(f"no value was searched for: all settings are in {plan.sweep.where}")
    for row in tuned:
        keys = dict.fromkeys(key for values, _ in row.trials for key in values)
        tried = {key: dict.fromkeys(str(values[key]) for values, _ in row.trials) for key in keys}
        space = ", ".join(f"{key} in {{{', '.join(values)}}}" for key, values in tried.items())
        best = ", ".join(f"{key} = {value}" for key, value in (row.values or {}).items()) or "not yet chosen"
        search.append(f"{row.label}: {len(row.trials)} trials on validation, {space}: {best}")
    settings = [_settings(status.cell.config) for status in statuses if status.cell.config]
    shared = [text for text in settings[0] if all(text in others for others in settings)] if settings else []
    further = [", ".join(text for text in texts if text not in shared) for texts in settings]
    seeds = Counter(_row(label) for label, _ in done)
    trials = [f"{row.label}: {len(row.trials)} trials" for row in tuned]
    repeated = _lines([*trials, *(f"{row or 'all'}: {count}" for row, count in seeds.items())])
    spread = f"mean and standard deviation over seeds ({repeated})"
    if any("ci" in entry for _, run in done for entry in run.metrics.values() if isinstance(entry, dict)):
        spread += "; each run's score has a 95 % interval over test items"
    return {
        "search": _lines(search),
        "settings": _lines([f"all: {', '.join(shared)}" if shared else "", *further]),
        "trials": repeated,
        "spread": spread if any(count > 1 for count in seeds.values()) else "",
    }


def _row(label: str) -> str:
    """Return a cell's label without its seed."""
    return " · ".join(part for part in label.split(" · ") if not part.startswith("seed "))


def _by_row(values: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    """Group values by their cells' labels without seeds, in order.

    ``values`` are pairs of a cell's label and its value.
    """
    grouped: dict[str, list[float]] = {}
    for label, value in values:
        grouped.setdefault(_row(label), []).append(value)
    return grouped


def _settings(config: Experiment) -> list[str]:
    """Return the settings that differ from their defaults, the seed left out.

    Structures have all of their options, defaults included: ``layer=phm n=4 variant=…``.
    """
    values = semantic_values(config)
    texts = {}
    for key, value in values.items():
        part = key.partition(".")[0]
        section = getattr(config, part)
        if isinstance(section, LayerConfig):
            texts[part] = f"{part}={layer_label(section.arguments, words=True)}"
        elif key != "seed":
            texts[key] = f"{key}={label_of(value)}"
    return list(texts.values())


def _of_data(statuses: Sequence[CellStatus], done: Sequence[tuple[str, RecordedRun]]) -> dict[str, str]:
    """Return the records of the data, as texts by name.

    Keys: statistics (counts by split, and items of another scored split), splits (SHA-256 sums, those of the same files
    together), creators, licences, documentation, downloads. The first two are from the runs, the others from the
    catalogue, empty for data that are not in it.
    """
    counts: list[str] = []
    by_checksum: dict[tuple[str, str], dict[str, None]] = {}  # names of splits by data and checksum
    for _, run in done:
        splits = run.parameters.get("data", {}).get("splits", {})
        for split, facts in splits.items() if isinstance(splits, dict) else ():
            figures = [f"{value:,} {key}" for key, value in facts.items() if type(value) is int]
            counts.append(f"{run.about('data')} {split}: {', '.join(figures)}")
        for name, score in run.metrics.items():
            split, _, metric = name.partition("/")
            if isinstance(score, Mapping) and "n" in score and metric and "-" not in split and split not in splits:
                counts.append(f"{run.about('data')} {split}: {score['n']:,} {score.get('unit', 'items')}")
                break
        record = run.run.data()
        for name, part in (record.splits if record else {}).items():
            files = [f"{Path(file.path).name} {file.sha256}" for file in part.files]
            several = f" ({', '.join(files)})" if len(files) > 1 else ""
            by_checksum.setdefault((str(run.about("data")), f"{part.sha256}{several}"), {})[name] = None
    checksums = [f"{data} {', '.join(names)}: SHA-256 {text}" for (data, text), names in by_checksum.items()]
    datasets_named = dict.fromkeys(status.cell.config.data.name for status in statuses if status.cell.config)
    datasets = [CATALOGUE.get(name) for name in datasets_named if name in CATALOGUE.names()]
    fetched = [
        f"phmrun data fetch {dataset.name} ({dataset.homepage or 'see its entry'})"
        if dataset.name != BUILTIN
        else "builtin: comes with phmrun"
        for dataset in datasets
    ]
    return {
        "statistics": _lines(counts),
        "splits": _lines(checksums),
        "creators": _lines(
            f"{dataset.name}: {dataset.homepage or dataset.summary}" for dataset in datasets if dataset.citation
        ),
        "licences": _lines(f"{dataset.name}: {dataset.licence}" for dataset in datasets),
        "documentation": _lines(f"{dataset.name}: {dataset.summary}" for dataset in datasets),
        "downloads": _lines(fetched),
    }


_REPRODUCIBILITY = (
    Item("R1", "On what machines was computed?", ("machines",)),
    Item("R2", "How long did each approach take on average?", ("times",)),
    Item("R3", "How many parameters has each model?", ("parameters",)),
    Item("R4", "What is the validation score beside each test score?", ("validation",)),
    Item("R5", "How exactly is each metric computed?", ("metrics",)),
    Item("R6", "Within what bounds were hyperparameters searched, and how were they chosen?", ("search",)),
    Item("R7", "How many trials and runs were made for each row?", ("trials",)),
    Item("R8", "What are the settings of the reported models?", ("settings",)),
    Item("R9", "How many examples has each part of the data?", ("statistics",)),
    Item("R10", "Which files are training, validation and test data?", ("splits",)),
    Item("R11", "Where can the data be downloaded?", ("downloads",)),
    Item("R12", "Where is the code, with its dependencies and the commands that give the results?", ("again",)),
)

CHECKLISTS: dict[str, tuple[Item, ...]] = {
    "acl": (
        Item("A1", "Are the limitations of the work described?"),
        Item("A2", "Are potential risks of the work discussed?"),
        Item("B1", "Are the creators of the data cited?", ("creators",)),
        Item("B2", "Are the licences of the data given?", ("licences",)),
        Item("B3", "Is the use of the data what they were intended for?"),
        Item("B4", "Was checked whether the data name or offend people?"),
        Item("B5", "Are the data documented: domain, language?", ("documentation",)),
        Item("B6", "How many examples has each part of the data?", ("statistics",)),
        Item("C1", "Parameters, computing budget and machines?", ("parameters", "budget", "machines")),
        Item("C2", "Settings, the search for them, and the best values found?", ("search",)),
        Item("C3", "Do results say what they are over: runs, means, error bars?", ("spread",)),
        Item("C4", "Versions and settings of the packages used?", ("packages",)),
        Item("D", "Were people asked to annotate or to take part?"),
        Item("E", "Were AI assistants used, and how?"),
        *_REPRODUCIBILITY,
    ),
    "neurips": (
        Item("1", "Do the claims match what is shown?"),
        Item("2", "Are limitations discussed?"),
        Item("3", "Are assumptions and proofs of theoretical results complete?"),
        Item("4", "Is what is needed to reproduce the results disclosed?", ("again",)),
        Item("5", "Are code and data open, with instructions?", ("again", "downloads")),
        Item("6", "Are splits, settings and how they were chosen given?", ("settings", "search")),
        Item("7", "Are error bars or significance reported, and over what?", ("spread",)),
        Item(
            "8",
            "On what machines, with how much memory, for how long was computed?",
            ("parameters", "budget", "machines"),
        ),
        Item("9", "Does the work follow the code of ethics?"),
        Item("10", "Are societal impacts discussed?"),
        Item("11", "Are there safeguards against misuse of what is released?"),
        Item("12", "Are licences and creators of existing assets named?", ("licences", "creators")),
        Item("13", "Are new assets documented?"),
        Item("14", "Are instructions and pay of participants given?"),
        Item("15", "Were risks to participants reviewed?"),
        Item("16", "Is the use of language models in the method declared?"),
    ),
}
"""Checklists by name."""
