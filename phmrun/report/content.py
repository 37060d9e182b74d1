"""Report of a sweep as one page, HTML and Markdown: table, pictures, runs, settings, environments, command.

Paths below the data directory or the user's home are shortened, since other people read the pages.
"""

import base64
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from phmrun.config import to_yaml
from phmrun.errors import PhmrunError, counted
from phmrun.escaping import fenced, markdown
from phmrun.files import read_text, write_text
from phmrun.ledger import environment, segment
from phmrun.ledger.card import duration, number, shared
from phmrun.ledger.record import absolute_paths, portable
from phmrun.ledger.wording import row_name
from phmrun.results.baselines import baseline_rows
from phmrun.results.comparison import Comparisons
from phmrun.results.costs import points_of
from phmrun.results.layout import lay_out
from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.runs import choose_score, curves, draw_history
from phmrun.results.plots.sweeps import draw_pareto
from phmrun.results.render import escaped, html_table, markdown_table
from phmrun.results.table import ResultTable
from phmrun.sweeps import Plan
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.cell_status import CellState, CellStatus, distinct, tally

MOST_CURVES = MOST_DIFFERENCES = 12


class Picture(NamedTuple):
    """SVG file with a caption."""

    path: Path
    caption: str

    @property
    def data(self) -> str:
        """Content of the file in base64, to be embedded."""
        return base64.b64encode(self.path.read_bytes()).decode("ascii")


def write_report(
    plan: Plan,
    statuses: Sequence[CellStatus],
    table: ResultTable,
    differences: Comparisons,
    path: Path,
    trials: Sequence[CellStatus] = (),
) -> list[Path]:
    """Write the report as HTML and Markdown with its pictures.

    Return the written files: HTML, Markdown, then pictures. Sections: results, pictures (if any), runs with faults of
    cells, settings, environment, and the command to reproduce them. It begins with counts of cells and of trials by
    state, time of training of all runs, and date.

    Args:
        plan: Plan of the sweep.
        statuses: States of its cells.
        table: Its results.
        differences: Comparisons with the dense cells.
        path: The HTML file; the other files are beside it and named after it. A missing directory is created. Existing
            files are replaced.
        trials: States of the trials of tuning.

    Raises:
        PhmrunError: (exit 3) A run's history differs from its manifest.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = [*_pareto(table, path), *_curves(statuses, path)]
    totals = ""
    for unit, group in (("cell", statuses), ("trial", trials)):
        counts = " · ".join(f"{count} {kind}" for kind, count in tally(group).items())
        totals += f"{counted(len(group), unit)}: {counts}. " if group else ""
    seconds = sum(s.run.status.seconds for s in distinct([*trials, *statuses]) if s.run and s.run.status)
    totals += f"{duration(seconds)} of training in all."
    paper = any(heading.printed is not None for heading in table.headings)
    seeds = max(len({cell.at["seed"] for cell in plan.cells}), 1)
    where = portable(shared(plan.sweep.where))
    content = {
        "title": plan.sweep.title or where,
        "opening": f"{totals} Written {environment.now()}.",
        "laid": lay_out(table, "mean±std", differences, paper=paper),
        "pictures": pictures,
        "runs": _runs(statuses),
        "faults": dict.fromkeys(str(status.cell.fault) for status in statuses if status.cell.fault),
        "settings": list(_settings(plan, statuses)),
        "environments": environments(statuses),
        "command": f"phmrun sweep {where} --seeds {seeds}\nphmrun report {where}",
    }
    jinja = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # without autoescape, since the page is Markdown, too: the template escapes each text
    jinja.filters |= {"escaped": escaped, "marked": lambda text: markdown(shared(text))}
    jinja.globals |= {"html_table": html_table, "markdown_table": markdown_table, "fenced": fenced, "shared": shared}
    written = [path, path.with_suffix(".md")]
    for file in written:
        text = jinja.get_template("page.jinja").render(content, html=file is path)
        write_text(file, f"{text.rstrip()}\n")
    return [*written, *(picture.path for picture in pictures)]


def _pareto(table: ResultTable, path: Path) -> Iterable[Picture]:
    """Draw score against parameters for each column with at least two networks.

    A network is a row with both. Writes an SVG file beside ``path`` for each picture, and yields it.
    """
    for place, heading in enumerate(table.headings):
        points = list(points_of(table, place).values())
        if len(points) > 1:
            file = path.with_name(f"{path.stem}-pareto-{place + 1}.svg")
            baselines = {row.label: value for row in baseline_rows(table) if (value := row.values[place]) is not None}
            save_figure(draw_pareto(points, heading.scores[0], baselines=baselines), file)
            yield Picture(file, f"{heading.name} against parameters; mean and deviation over seeds")


def _curves(statuses: Sequence[CellStatus], path: Path) -> Iterable[Picture]:
    """Draw training curves, one picture per task.

    They are those of finished cells' first finished seeds. At most 12 cells of a task are drawn, over optimizer steps.
    A task is skipped if its histories have no common score, or one of an early release is damaged. Writes an SVG file
    beside ``path`` for each picture, and yields it.

    Raises:
        PhmrunError: (exit 3) A history differs from its manifest.
    """
    first: dict[tuple[Any, ...], CellStatus] = {}
    for status in statuses:
        if status.run and status.cell.config and status.state is CellState.DONE:
            first.setdefault((status.cell.config.task, *status.cell.row), status)
    for task in dict.fromkeys(key[0] for key in first):
        chosen = [status for key, status in first.items() if key[0] == task][:MOST_CURVES]
        runs = [status.run.run for status in chosen if status.run]
        for run in runs:
            run.manifest.check(run.history.path)
        try:
            score = choose_score(runs, None)
            drawn = curves(runs, score, "step")
        except PhmrunError:
            continue  # the histories have no common score, or an older one is damaged
        drawn = [curve._replace(label=status.cell.label) for curve, status in zip(drawn, chosen, strict=True)]
        file = path.with_name(f"{path.stem}-{task}-history.svg")
        save_figure(draw_history(drawn, score, "step"), file)
        yield Picture(file, f"{score} over the training, {task}; the first seed of each cell")


def _runs(statuses: Iterable[CellStatus]) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """Return columns and rows of a table of cells.

    Columns: cell, state, parameters, main score, training time, run id, and the reason why it is not done. What is not
    on record is empty.
    """
    rows: list[Sequence[Any]] = []
    for status in statuses:
        run, recorded = status.run, status.run.status if status.run else None
        score = run.main_score if run else None
        value = number(run.score(score)) if run and score else None
        seconds = duration(recorded.seconds) if recorded and recorded.seconds else None
        reason = "" if status.state is CellState.DONE else status.reason
        rows.append((status.cell.label, str(status.state), status.size, value, seconds, status.cell.run_id, reason))
    return ("cell", "state", "parameters", "score", "training", "run", ""), rows


def _settings(plan: Plan, statuses: Sequence[CellStatus]) -> Iterable[tuple[str, str]]:
    """Yield titles and texts of the sweep's file and of whole configurations.

    The file is left out if it does not exist. Configurations are those of the first cell of each task.
    """
    path = Path(plan.sweep.where)
    if path.is_file():
        yield f"The sweep, {portable(shared(plan.sweep.where))}", read_text(path)
    seen = set()
    for status in statuses:
        config = status.cell.config
        if config and config.task not in seen:
            seen.add(config.task)
            text = to_yaml(config, status.cell.origin)
            for absolute in sorted(absolute_paths(config.model_dump(mode="json")), key=len, reverse=True):
                text = text.replace(absolute, portable(shared(absolute)))
            yield f"All settings of the cell {status.cell.label}", text


def environments(statuses: Sequence[CellStatus]) -> tuple[Sequence[str], list[tuple[str, str]], list[str]]:
    """Return columns and rows of a table of environments with their cells, and notes on differences.

    Notes: differences between cells (or that there are none), changes of environment within a
    run. There are no rows without any record. At most 12 differences are named in a note.
    """
    by_cell = {status.cell.label: segment.read_segments(status.run.run) for status in statuses if status.run}
    cells: dict[str, list[Cell]] = {}
    for status in statuses:
        for line in dict.fromkeys(environment.summary(entry) for entry in by_cell.get(status.cell.label, ())):
            cells.setdefault(line, []).append(status.cell)
    notes: list[str] = []
    rows = [(line, "all" if len(cells) == 1 else _by_row(its)) for line, its in cells.items()]
    entries = [entry for segments in by_cell.values() for entry in segments]
    changes = dict.fromkeys(change for entry in entries[1:] for change in environment.differences(entries[0], entry))
    if changes:
        notes.append(
            f"The rows were not all made in the same environment: {'; '.join(list(changes)[:MOST_DIFFERENCES])}."
        )
    elif len(by_cell) > 1 and all(by_cell.values()):
        notes.append("All rows were made in the same environment.")
    for label, segments in by_cell.items():
        for before, after in pairwise(segments):
            # A process that began at step 0, or trained nothing, did not resume in another environment.
            if after.get("first_step") and (changed := environment.differences(before, after)):
                listed = "; ".join(changed[:MOST_DIFFERENCES])
                notes.append(f"{label} went on in another one from step {after['first_step']:,}: {listed}.")
    return ("environment", "cells"), rows, notes


def _by_row(cells: Sequence[Cell]) -> str:
    """Return a text with the cells by row and their seeds.

    As in "phm n=2: seeds 1, 2; phm n=4: seed 1". A row without seeds is its name alone.
    """
    seeds: dict[str, list[str]] = {}
    for cell in cells:
        row = row_name(dict(cell.row))
        seeds.setdefault(row, []).append(cell.labels.get("seed", ""))
    seeds_of = {
        row: f"{'seed' if len(its) == 1 else 'seeds'} {', '.join(its)}" for row, its in seeds.items() if any(its)
    }
    return "; ".join(f"{row}: {seeds_of[row]}" if row in seeds_of else row for row in seeds)
