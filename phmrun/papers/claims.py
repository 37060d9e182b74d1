"""Claims of the papers, ``configs/papers/<paper>/claims.yaml``, checked against our runs.

A claim compares two cells of a table. Only runs with the table's settings decide it. Runs with reduced settings decide
it "in this reduced setting", never the paper's. Imports torch to count networks.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, config_source, packaged_names
from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers import options_of
from phmrun.ledger.listing import list_runs
from phmrun.ledger.recorded_run import PREFIX as TIME
from phmrun.metric import metric_of
from phmrun.papers.audit import build_counts
from phmrun.papers.audit import measured as count_of
from phmrun.report.reduced_claims import CheckedClaim
from phmrun.report.results_page import checked_claims
from phmrun.results.comparison import floor_scores, same_items, scored
from phmrun.results.entries import Entry, settings_of
from phmrun.results.items import RunItems
from phmrun.results.long_table import Results, ended
from phmrun.results.table import Figure
from phmrun.statistics.verdict import Judgement, Question, judge
from phmrun.sweeps import Inspected, load_sweep, plan
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.file import Sweep
from phmrun.sweeps.paper_claims import Claim, Outcome, load_claims, outcome_of, printed_difference
from phmrun.sweeps.paper_table import FOLDER, column_groups, load_table
from phmrun.sweeps.selection import fits


@dataclass(frozen=True)
class Finding:
    """Result of a claim's check."""

    paper: str  # short name of the paper
    claim: Claim
    printed: float | None  # printed difference (ratio, of a size); ``None`` if the paper prints none
    outcome: Outcome  # the outcome
    why: str  # its reason
    effect: float | None = None  # our difference (ratio of parameters, of a size)
    interval: tuple[float, float] | None = None  # its 95 % interval
    seeds: tuple[int, int] = (0, 0)  # seeds of both cells
    reduced: str = ""  # how the settings are smaller than the paper's; empty if they are equal
    command: str = ""  # command that decides it
    cite: str = ""  # authors and year
    sweep: str = ""  # sweep of the results folder that checks it; empty if runs of the paper's settings do

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON object.

        It has the fields of the finding, and of the claim "name", "says", "table", "row", "column", "claim", "margin"
        (None unless "close"), and "against", the other cell as "row / column". Empty texts become ``None``.
        """
        claim = self.claim
        return {
            "paper": self.paper,
            "name": claim.name,
            "says": claim.says,
            "table": claim.table,
            "row": claim.row,
            "against": " / ".join(claim.cells[1]),
            "column": claim.column,
            "claim": claim.claim,
            "margin": claim.margin if claim.claim == "close" else None,
            "printed": self.printed,
            "outcome": str(self.outcome),
            "why": self.why,
            "effect": self.effect,
            "interval": list(self.interval) if self.interval else None,
            "seeds": list(self.seeds),
            "reduced": self.reduced or None,
            "sweep": self.sweep or None,
            "command": self.command or None,
        }


def findings(paper: str, runs_dir: Path, results: Path | None = None) -> list[Finding]:
    """Check the claims of one paper, or of all papers.

    Runs with the settings of a paper's table, or of its reduced version, decide a claim by :func:`examine`. A claim
    without them is checked by each sweep of the results that names it.

    Args:
        paper: Short name of the paper, or "all".
        runs_dir: Directory of the runs.
        results: Folder of results with ``questions.yaml``; none are read if not given.

    Raises:
        PhmrunError: (exit 2) The paper is unknown. (exit 3) A file of the results is missing or damaged.
    """
    files = load_claims(paper)
    evidence = Evidence(runs_dir)
    reduced: dict[tuple[str, str], list[CheckedClaim]] = {}
    for item in checked_claims(results) if results else ():
        reduced.setdefault((item.paper.paper, item.claim.name), []).append(item)
    listed = []
    for file in files:
        for claim in file.claims:
            finding = replace(examine(file.paper, claim, evidence.measured, evidence.share_of), cite=file.cite)
            others = reduced.get((file.paper, claim.name), []) if finding.outcome is Outcome.NOT_RUN else []
            listed += [_reduced(finding, item) for item in others] or [finding]
    return listed


def _reduced(finding: Finding, checked: CheckedClaim) -> Finding:
    """Return a finding with the outcome of a sweep in a reduced setting."""
    shown = checked.difference
    return replace(
        finding,
        outcome=checked.outcome,
        why=checked.why,
        effect=shown.value if shown else None,
        interval=(shown.low, shown.high) if shown else None,
        seeds=shown.seeds if shown else checked.seeds,
        reduced=f"{checked.score}, {checked.asked.reduction}",
        sweep=checked.asked.sweep,
    )


Measured = Callable[[str, Claim], tuple[Judgement | None, tuple[int, int]]]
"""Function from a sweep's file and a claim to our judgement and the seeds of both cells."""


def examine(paper: str, claim: Claim, measured: Measured, share_of: Callable[[str, Claim], float]) -> Finding:
    """Check a claim of a paper.

    A claim on size is counted: it holds if the share is at most the claim's. Another is decided by :func:`outcome_of`
    on the table's sweep, or on its reduced version if that alone has runs. It is untestable if the table has no task,
    no run has the figure, or the figure is a time, and "not run" without runs.

    Args:
        paper: Short name of the paper.
        claim: The claim.
        measured: Function that compares our runs.
        share_of: Function that returns the row's parameters / the other's.
    """
    name = f"{FOLDER}{paper}/table{claim.table}.yaml"
    table = load_table(name)
    printed = printed_difference(table, claim)
    if claim.claim == "size":
        share = share_of(name, claim)
        outcome = Outcome.HOLDS if claim.share is not None and share <= claim.share else Outcome.FAILS
        return Finding(paper, claim, printed, outcome, "counted, not trained", share)
    score, metric = table.columns[claim.column].score, table.columns[claim.column].metric
    if not table.task or not score or str(score).startswith(TIME):  # seeds do not vary a machine's times
        return Finding(paper, claim, printed, Outcome.UNTESTABLE, f"no run of ours has this figure: {metric}")
    small = name.replace(".yaml", "-small.yaml")
    for file in (name, small) if small in packaged_names() else (name,):
        values = config_source(file).values
        rows, columns = values.get("rows") or [], values.get("columns") or []
        chosen = "table" in values and "paper" not in values  # a selection of a table's rows and columns
        if chosen and any((rows and row not in rows) or (columns and at not in columns) for row, at in claim.cells):
            continue
        judgement, seeds = measured(file, claim)
        if any(seeds):
            lower = metric_of(str(score)).lower_is_better
            outcome, why = outcome_of(claim, judgement, seeds, lower_is_better=lower)
            shown = judgement.difference if judgement else None
            effect, interval = (shown.value, (shown.low, shown.high)) if shown else (None, None)
            reduced = str(values.get("reduced") or "reduced settings") if file == small else ""
            command = _command(file, claim)
            return Finding(paper, claim, printed, outcome, why, effect, interval, seeds, reduced, command)
    return Finding(paper, claim, printed, Outcome.NOT_RUN, "no run is done", command=_command(name, claim))


def _command(file: str, claim: Claim) -> str:
    """Return the sweep command that trains the runs of a claim with five seeds.

    It is ``phmrun sweep FILE --only 'row=…' … --seeds 5``. Columns are selected, too, if those of the table differ in
    settings. Rows and columns of both cells are named, each once.
    """
    (row, column), (other, against) = claim.cells
    only = [f"--only 'row={label}'" for label in dict.fromkeys((row, other))]
    values = config_source(file).values
    table = load_table(file if "paper" in values else str(values["table"]))
    if len({str(column_of_table.set) for column_of_table in table.columns.values() if column_of_table.score}) > 1:
        only += [f"--only 'column={label}'" for label in dict.fromkeys((column, against))]
    return f"phmrun sweep {file} {' '.join(only)} --seeds 5"


class Evidence:
    """Runs of a directory, read once, as evidence for claims."""

    def __init__(self, runs_dir: Path) -> None:
        self._by_settings: dict[str, list[Entry]] = {}
        self._planned: dict[str, Sequence[Cell]] = {}  # by the name of a sweep's file
        for entry in Results.load(ended(list_runs(runs_dir)), options_of).entries:
            self._by_settings.setdefault(_key(entry.settings), []).append(entry)

    def measured(self, file: str, claim: Claim) -> tuple[Judgement | None, tuple[int, int]]:
        """Return the judgement of a claim's cells, and their seeds.

        It is that of tables, with one row: collapsed seeds and floors of the other cell count. The judgement is
        ``None`` if a cell has no run, or the two were scored on different items. If the file is no sweep over a table,
        the seeds are (0, 0). Runs count if they have the cell's settings with any seed, and have the score or diverged.
        """
        sweep = load_sweep(file)
        table = sweep.table
        if table is None:
            return None, (0, 0)
        groups = column_groups(table, sweep.file.columns)
        score = table.columns[claim.column].score
        name = score if isinstance(score, str) else (score or [""])[0]
        figures = []
        for row, column in claim.cells:
            only: dict[str, list[Any]] = {"row": [row]}
            if len(set(groups.values())) > 1:
                only["column"] = [groups[column]]
            fitting = (cell.config for cell in self._cells(file, sweep) if fits(cell.at, cell.config, only))
            config = next((config for config in fitting if config), None)
            entries = self._by_settings.get(_key(settings_of(config)), []) if config else []
            having = (entry for entry in entries if entry.diverged or (entry.run and entry.run.score(name) is not None))
            figures.append(Figure((), tuple(having)))
        sides = [scored(figure, name) for figure in figures]
        seeds = len(sides[0].values), len(sides[1].values)
        if not all(seeds) or not same_items(sides[0], sides[1], name, RunItems()):
            return None, seeds
        question = Question(lower_is_better=metric_of(name).lower_is_better)
        floors = list(floor_scores(figures[1].entries, name).values())
        return judge({"row": sides[0].values}, sides[1].values, question, floors=floors)["row"], seeds

    def _cells(self, file: str, sweep: Sweep) -> Sequence[Cell]:
        """Return the cells of a sweep's file, one of each row and column; they are planned once.

        The settings leave out the seed, so one seed finds all runs; the data are not needed.
        """
        if file not in self._planned:
            self._planned[file] = plan(sweep, _unseen, options_of, seeds=1).cells
        return self._planned[file]

    def share_of(self, file: str, claim: Claim) -> float:
        """Return the parameters of a claim's row divided by the other row's.

        They are counted on the networks, by the measure of the row or else of the column ("total" by default), without
        the parts that the column leaves out.
        """
        table = load_table(file)
        counts = []
        for row, column in claim.cells:
            heading, table_row = table.columns[column], table.row(row)
            measure = table_row.counts.get(column, heading.counts) or "total"
            counts.append(count_of(build_counts(table, table_row, file), measure, heading.without, file))
        return counts[0] / counts[1]


def _unseen(config: Experiment) -> Inspected:
    """Raise an error (exit 3) instead of inspecting data.

    It is passed to the planner, which needs no data here.
    """
    raise PhmrunError("the data are not looked at", code=ExitCode.DATA)


def _key(settings: Any) -> str:
    """Return settings as JSON text with sorted keys.

    Values that JSON lacks are written by ``str``.
    """
    return json.dumps(dict(settings), sort_keys=True, default=str)
