"""Baselines as rows of a table: trivial systems that were scored beside the runs, on the same test items."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from phmrun.ledger.listing import score_names
from phmrun.metric import OF, floors_of
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
        """Name with its kind."""
        return f"{self.name} ({'floor' if self.is_floor else 'baseline'})"


def baseline_rows(table: ResultTable) -> list[BaselineRow]:
    """Baselines that were scored beside the runs of a table, floors first."""
    columns = [_of_column(table, column) for column in range(len(table.headings))]
    names = dict.fromkeys(name for scores in columns for name in scores)
    rows = []
    for name in names:
        is_floor = any(f"{heading.scores[0]}{OF}{name}" in floors_of(heading.scores[0]) for heading in table.headings)
        rows.append(BaselineRow(name, tuple(scores.get(name) for scores in columns), is_floor))
    return sorted(rows, key=lambda row: not row.is_floor)


def _of_column(table: ResultTable, column: int) -> dict[str, float]:
    """Mean score of each baseline over the runs of a column; left out where a column shows a baseline itself."""
    score = table.headings[column].scores[0]
    if OF in score:
        return {}
    runs = [entry.run for figures in table.figures for entry in figures[column].entries if entry.run]
    prefix = f"{score}{OF}"
    means: dict[str, float] = {}
    for name in score_names(runs):
        if name.startswith(prefix):
            values: Sequence[float | None] = [run.score(name) for run in runs]
            means[name.removeprefix(prefix)] = fmean(value for value in values if value is not None)
    return means
