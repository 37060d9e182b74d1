"""What our runs say of two cells of a paper's table, from the ledger alone. Imports torch, to count networks."""

import json
from pathlib import Path
from typing import Any

from phmrun.config import Experiment
from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers import options_of
from phmrun.ledger.listing import list_runs
from phmrun.ledger.status import State
from phmrun.papers.audit import build_counts, measured
from phmrun.papers.claims import Claim
from phmrun.papers.entries import Entry, entry_of_run, settings_of
from phmrun.papers.published import load_table
from phmrun.papers.results import Figure, Numbers
from phmrun.papers.significance import compared
from phmrun.statistics.hierarchical import Comparison
from phmrun.sweeps import Inspected, load_sweep, plan
from phmrun.sweeps.plan import column_groups


class Evidence:
    """The runs of a directory, read once.

    Args:
        runs_dir: The directory of all runs.
    """

    def __init__(self, runs_dir: Path) -> None:
        self._by_settings: dict[str, list[Entry]] = {}
        for run in list_runs(runs_dir):
            if run.state == State.DONE:
                entry = entry_of_run(run, options_of)
                self._by_settings.setdefault(_key(entry.settings), []).append(entry)

    def measured(self, file: str, claim: Claim) -> tuple[Comparison | None, tuple[int, int]]:
        """Our comparison of the two cells of a claim; the seeds that each has."""
        sweep = load_sweep(file)
        table = sweep.table
        if table is None:
            return None, (0, 0)
        groups = column_groups(table, sweep.file.columns)
        score = table.columns[claim.column].score
        name = score if isinstance(score, str) else (score or [""])[0]
        figures = []
        for row, column in ((claim.row, claim.column), claim.other):
            only: dict[str, list[Any]] = {"row": [row]}
            if len(set(groups.values())) > 1:
                only["column"] = [groups[column]]
            cells = plan(sweep, _unseen, options_of, seeds=1, only=only).cells
            config = next((cell.config for cell in cells if cell.config), None)
            entries = self._by_settings.get(_key(settings_of(config)), []) if config else []
            having = tuple(each for each in entries if each.run and each.run.score(name) is not None)
            values = tuple(each.run.score(name) or 0.0 for each in having if each.run)
            figures.append(Figure((Numbers(values, (), None),), having))
        seeds = (figures[0].runs, figures[1].runs)
        if not all(seeds):
            return None, seeds
        found = compared(figures[0], figures[1], name)
        return (found[0] if found else None), seeds

    def share_of(self, file: str, claim: Claim) -> float:
        """The parameters of a claim's row in parts of the other's, by the networks themselves."""
        table = load_table(file)
        counts = []
        for row, column in ((claim.row, claim.column), claim.other):
            heading, one = table.columns[column], table.row(row)
            measure = one.counts.get(column, heading.counts) or "total"
            counts.append(measured(build_counts(table, one, file), measure, heading.without, file))
        return counts[0] / counts[1]


def _unseen(config: Experiment) -> Inspected:
    raise PhmrunError("the data are not looked at", code=ExitCode.DATA)


def _key(settings: Any) -> str:
    return json.dumps(dict(settings), sort_keys=True, default=str)
