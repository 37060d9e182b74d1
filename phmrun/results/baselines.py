"""Baselines as rows of a table: trivial systems on the same items. Imports no torch."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from phmrun.ledger import Run
from phmrun.ledger.listing import score_names
from phmrun.ledger.scores import score_value, signature_of
from phmrun.metric import OF, baseline_of, divergence_of, floors_of, metric_of
from phmrun.results.entries import entry_of_run, identities
from phmrun.results.table import BUILTIN, REDUCED, ResultTable


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

    A baseline is a floor if it is one for any of them. Floors and others each
    are in the order of the columns that have them. Scores are multiplied by the column's factor.
    """
    columns = [
        [e.run for line in table.figures for e in line[at].entries if e.run] for at in range(len(table.headings))
    ]
    factors = [heading.factor for heading in table.headings]
    rows = _rows(columns, [heading.score for heading in table.headings])
    return [replace(row, values=tuple(v and v * f for v, f in zip(row.values, factors, strict=True))) for row in rows]


def listed_baselines(runs: Sequence[Run], scores: Sequence[str]) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the baselines of listed runs as table rows.

    A row has name with kind, task and data ("majority (floor), nli snli"), and its mean value of each score, or
    ``None``. Runs of the same task and test items share them; if those of one name differ, such as the user's own
    files, six digits of their checksum follow. Floors come first within a task and data.
    """
    groups: dict[str, dict[str, list[Run]]] = {}  # by task and data, then by the checksum of the test items
    for run in runs:
        signatures = [signature_of(run.entry(score)) for score in scores]
        mark = next((match[1] for text in signatures if (match := re.search(r"\bdata:(\w{6})", text))), "")
        groups.setdefault(f"{run.about('task')} {run.about('data')}", {}).setdefault(mark, []).append(run)
    for label, by_mark in groups.items():
        listed = {mark: _rows([members] * len(scores), scores) for mark, members in by_mark.items()}
        several = sum(map(bool, listed.values())) > 1
        for mark, rows in listed.items():
            name = f"{label} {mark}" if several else label
            yield from ((f"{row.label}, {name}", list(row.values)) for row in rows)


def _rows(columns: Sequence[Sequence[Run]], scores: Sequence[str]) -> list[BaselineRow]:
    """Return the registered baselines of scores, each with the runs of its column; floors first."""
    means = [_means(runs, score) for runs, score in zip(columns, scores, strict=True)]
    floors = {name for score in scores for name in metric_of(score).floors}
    names = dict.fromkeys(name for column in means for name in column)
    rows = [BaselineRow(name, tuple(column.get(name) for column in means), name in floors) for name in names]
    return sorted(rows, key=lambda row: not row.is_floor)


def _means(runs: Sequence[Run], score: str) -> dict[str, float]:
    """Return the mean score of each registered baseline, by its name, over the runs that have it.

    The baselines are those of ``score``, of the same part if it is a part's. The result is empty if the score is a
    baseline's itself.
    """
    means: dict[str, float] = {}
    for name in score_names(runs):
        if (place := baseline_of(name, [score])) is not None:
            values = [value for run in runs if (value := run.score(name)) is not None]
            means |= {place[1]: fmean(values)} if values else {}
    return means


def has_diverged(run: Run | None, score: str) -> bool:
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

    The first score with floors counts. The worse end of its interval must beat the floor, or the
    value if there is no interval. The warning begins with "diverged" if the value is worse than the metric's divergence
    floor, else with "untrained". The result is ``None`` if the floor is beaten, or if there is no such score or floor.
    """
    score = next((name for name in metrics if OF not in name and metrics.keys() & {*floors_of(name)}), "")
    values = {name: score_value(metrics[name]) for name in floors_of(score) if name in metrics} if score else {}
    floors = {name: value for name, value in values.items() if value is not None}
    if not floors or (value := score_value(metrics[score])) is None:
        return None
    sign = -1 if metric_of(score).lower_is_better else 1
    best = max(floors, key=lambda name: sign * floors[name])
    interval = metrics[score].get("ci") if isinstance(metrics[score], Mapping) else None
    if sign * (interval[sign < 0] if interval else value) > sign * floors[best]:
        return None
    shown = f"{value:.2f}" + (f" ({interval[0]:.2f} – {interval[1]:.2f})" if interval else "")
    past = divergence_of(score)
    if past in floors and sign * value < sign * floors[past]:
        return f"diverged: {score} {shown} is worse than the floor {past.partition(OF)[2]}, {floors[past]:.2f}"
    return (
        f"untrained: {score} {shown} does not beat the floor {best.partition(OF)[2]}, {floors[best]:.2f}, significantly"
    )


def remarks(runs: Sequence[Run], score: str) -> list[str]:
    """Return the reasons for which a run's score alone orders nothing, for each run; empty without any.

    They are a single seed with these settings, and the built-in corpus. Runs without the score have none.
    """
    entries = [entry_of_run(run) for run in runs]
    keys, scored = identities(entries), [run.score(score) is not None for run in runs]
    seeds: dict[str, set[str]] = {}
    for key, entry, has_score in zip(keys, entries, scored, strict=True):
        if has_score:
            seeds.setdefault(key, set()).add(str(entry.seed))
    texts = []
    for key, entry, has_score in zip(keys, entries, scored, strict=True):
        parts = ["1 seed"] if len(seeds.get(key, ())) == 1 else []
        parts += [f"{REDUCED} built-in corpus"] if entry.label("data") == BUILTIN else []
        texts.append("; ".join(parts) if has_score else "")
    return texts
