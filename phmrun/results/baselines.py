"""Baselines as rows of a table: trivial systems on the same items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from phmrun.ledger.listing import score_names
from phmrun.ledger.recorded_run import RecordedRun
from phmrun.metric import OF, divergence_of, find_baseline, floors_of, metric_of, part_of
from phmrun.results.table import ResultTable


@dataclass(frozen=True)
class BaselineRow:
    """Scores of one baseline.

    Attributes:
        name: Name behind "-of-", such as "majority".
        values: Score in each column of the table; ``None`` if it was not measured there.
        is_floor: True if a trained model must beat it.
    """

    name: str
    values: tuple[float | None, ...]
    is_floor: bool

    @property
    def label(self) -> str:
        """Name with its kind: "majority (floor)" or "copy (baseline)"."""
        return f"{self.name} ({'floor' if self.is_floor else 'baseline'})"


def baseline_rows(table: ResultTable) -> list[BaselineRow]:
    """Return the baselines scored beside a table's runs, floors first.

    A baseline is a floor if it is one for the first score of any column. Floors and others each are in the order of
    the columns that have them.
    """
    columns = [_of_column(table, column) for column in range(len(table.headings))]
    names = dict.fromkeys(name for scores in columns for name in scores)
    rows = []
    for name in names:
        is_floor = any(name in metric_of(heading.scores[0]).floors for heading in table.headings)
        rows.append(BaselineRow(name, tuple(scores.get(name) for scores in columns), is_floor))
    return sorted(rows, key=lambda row: not row.is_floor)


def _of_column(table: ResultTable, column: int) -> dict[str, float]:
    """Return each registered baseline's mean score in a column.

    The first score of the column counts. The result is empty if that is a baseline's itself.
    """
    runs = [entry.run for figures in table.figures for entry in figures[column].entries if entry.run]
    return baseline_scores(runs, table.headings[column].scores[0])


def baseline_scores(runs: Sequence[RecordedRun], score: str) -> dict[str, float]:
    """Return the mean score of each registered baseline, by its name.

    The mean is over the runs that have it; the baselines are those of ``score``, of the same part if it is a part's.
    The result is empty if the score is a baseline's itself.
    """
    if OF in score:
        return {}
    part = part_of(score, metric_of(score))
    prefix, ending = f"{score.removesuffix(f'-{part}') if part else score}{OF}", f"-{part}" if part else ""
    means: dict[str, float] = {}
    for full in score_names(runs):
        name = full.removeprefix(prefix).removesuffix(ending)
        if not full.startswith(prefix) or find_baseline(name) is None:
            continue
        values = [value for run in runs if (value := run.score(f"{prefix}{name}{ending}")) is not None]
        if values:
            means[name] = fmean(values)
    return means


def listed_baselines(runs: Sequence[RecordedRun], scores: Sequence[str]) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the baselines of listed runs as table rows.

    A row has name with kind, task and data ("majority (floor), nli snli"), and its mean value of each score, or
    ``None``. Runs of the same task and data share them. Floors come first within a task and data.
    """
    groups: dict[str, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(f"{run.about('task')} {run.about('data')}", []).append(run)
    for label, members in groups.items():
        columns = [baseline_scores(members, score) for score in scores]
        rows = []
        for name in dict.fromkeys(name for column in columns for name in column):
            is_floor = any(name in metric_of(score).floors for score in scores)
            rows.append(BaselineRow(name, tuple(column.get(name) for column in columns), is_floor))
        for row in sorted(rows, key=lambda row: not row.is_floor):
            yield f"{row.label}, {label}", list(row.values)


def has_diverged(run: RecordedRun | None, score: str) -> bool:
    """True if a run's score is worse than its divergence floor.

    This is the floor past which a run has diverged, such as the unigram's perplexity. The result is False without a
    run, without the score, or without such a floor on record.
    """
    name = divergence_of(score) if run else None
    value, floor = (run.score(score), run.score(name)) if run and name else (None, None)
    if value is None or floor is None:
        return False
    return value > floor if metric_of(score).lower_is_better else value < floor


def shortfall(metrics: Mapping[str, Any]) -> str | None:
    """Return a warning if a run does not beat its best floor.

    The first "test/…" score that is not a baseline counts. The worse end of its interval must beat the floor, or the
    value if there is no interval. The warning begins with "diverged" if the value is worse than the metric's divergence
    floor, else with "untrained". The result is ``None`` if the floor is beaten, or if there is no such score or floor.
    """
    score = next((name for name in metrics if OF not in name and name.startswith("test/")), None)
    floors = {name: value for name in floors_of(score) if (value := _value(metrics, name)) is not None} if score else {}
    if score is None or not floors or (value := _value(metrics, score)) is None:
        return None
    lower = metric_of(score).lower_is_better
    best = (min if lower else max)(floors, key=lambda name: floors[name])
    entry = metrics[score]
    interval = entry.get("ci") if isinstance(entry, Mapping) else None
    reached = (interval[1] if lower else interval[0]) if interval else value
    if (reached < floors[best]) if lower else (reached > floors[best]):
        return None
    shown = f"{value:.2f}" + (f" ({interval[0]:.2f} – {interval[1]:.2f})" if interval else "")
    name = best.partition(OF)[2]
    past = divergence_of(score)
    if past in floors and ((value > floors[past]) if lower else (value < floors[past])):
        return f"diverged: {score} {shown} is worse than the floor {past.partition(OF)[2]}, {floors[past]:.2f}"
    return f"untrained: {score} {shown} does not beat the floor {name}, {floors[best]:.2f}, significantly"


def _value(metrics: Mapping[str, Any], name: str) -> float | None:
    """Return the value of a score in ``metrics.json``.

    The result is ``None`` if it has none.
    """
    entry = metrics.get(name)
    value = entry.get("value") if isinstance(entry, Mapping) else entry
    return float(value) if isinstance(value, int | float) else None
