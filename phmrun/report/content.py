"""Content of a sweep's report: table, pictures, runs, settings, environments, command."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from phmrun.config import to_yaml
from phmrun.errors import PhmrunError, counted
from phmrun.files import read_text
from phmrun.ledger import environment
from phmrun.ledger.card import duration, number, shared
from phmrun.ledger.record import absolute_paths, portable
from phmrun.report.document import Code, Document, Listing, Part, Picture, Section, Text, write
from phmrun.report.environments import environments
from phmrun.results.baselines import baseline_rows
from phmrun.results.costs import points_of
from phmrun.results.layout import Differences, lay_out
from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.runs import choose_score, curves, draw_history
from phmrun.results.plots.sweeps import draw_pareto
from phmrun.results.table import ResultTable
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import CellState, CellStatus, tally

MOST_CURVES = 12


def write_report(
    plan: Plan, statuses: Sequence[CellStatus], table: ResultTable, differences: Differences, path: Path
) -> list[Path]:
    """Write the report as HTML and Markdown with its pictures.

    Return the written files: HTML, Markdown, then pictures. Sections: results, pictures (if any), runs with faults of
    cells, settings, environment, and the command to reproduce them. It begins with counts of cells by state, time of
    training, and date.

    Args:
        plan: Plan of the sweep.
        statuses: States of its cells.
        table: Its results.
        differences: Comparisons with the dense cells.
        path: The HTML file; the other files are beside it and named after it. A missing directory is created. Existing
            files are replaced.

    Raises:
        PhmrunError: (exit 3) A run's history differs from its manifest.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # First, since the HTML page embeds the pictures from their files.
    pictures = [*_pareto(table, path), *_curves(statuses, path)]
    counts = " · ".join(f"{count} {kind}" for kind, count in tally(statuses).items())
    seconds = sum(s.run.status.seconds for s in statuses if s.run and s.run.status)
    totals = f"{counted(len(statuses), 'cell')}: {counts}. {duration(seconds)} of training in all."
    opening = f"{totals} Written {environment.now()}."
    paper = any(heading.published is not None for heading in table.headings)
    laid = lay_out(table, "mean±std", differences, paper=paper)
    tables: list[Part] = [Listing(laid.columns, laid.rows)]
    if laid.verdict_rows:
        tables.append(Listing(laid.verdict_columns, laid.verdict_rows))
    tables += [Text(note, note=True) for note in laid.notes]
    sections = [Section("Results", tables)]
    if pictures:
        sections.append(Section("Pictures", pictures))
    faults = dict.fromkeys(str(status.cell.fault) for status in statuses if status.cell.fault)
    sections.append(Section("Runs", [_runs(statuses), *(Text(f"Not run: {fault}", note=True) for fault in faults)]))
    sections.append(Section("Settings", list(_settings(plan, statuses))))
    sections.append(Section("Environment", environments(statuses)))
    seeds = max(len({cell.at["seed"] for cell in plan.cells}), 1)
    where = portable(plan.sweep.where)
    again = Code(f"phmrun sweep {where} --seeds {seeds}\nphmrun report {where}", "console")
    nothing_twice = Text("The command runs only what is missing.")
    sections.append(Section("Reproduce", [nothing_twice, again]))
    page = Document(plan.sweep.title or where, [Text(opening)], sections)
    return [*write(page, path), *(picture.path for picture in pictures)]


def _pareto(table: ResultTable, path: Path) -> Iterable[Picture]:
    """Draw score against parameters for each column with at least two networks.

    A network is a row with both. Writes an SVG file beside ``path`` for each picture, and yields it.
    """
    for place, heading in enumerate(table.headings):
        points = points_of(table, place)
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


def _runs(statuses: Iterable[CellStatus]) -> Listing:
    """Return a table of cells.

    Columns: cell, state, parameters, main score, training time, run id, and the reason why it is not done. What is not
    on record is empty.
    """
    rows = []
    for status in statuses:
        run, recorded = status.run, status.run.status if status.run else None
        score = run.main_score if run else None
        value = number(run.score(score)) if run and score else None
        seconds = duration(recorded.seconds) if recorded and recorded.seconds else None
        reason = "" if status.state is CellState.DONE else status.reason
        rows.append((status.cell.label, str(status.state), status.size, value, seconds, status.cell.run_id, reason))
    return Listing(("cell", "state", "parameters", "score", "training", "run", ""), rows)


def _settings(plan: Plan, statuses: Sequence[CellStatus]) -> Iterable[Part]:
    """Yield the sweep's file and whole configurations.

    The file is left out if it does not exist. Configurations are those of the first cell of each task.
    """
    path = Path(plan.sweep.where)
    if path.is_file():
        yield Code(shared(read_text(path)), "yaml", f"The sweep, {portable(plan.sweep.where)}")
    seen = set()
    for status in statuses:
        config = status.cell.config
        if config and config.task not in seen:
            seen.add(config.task)
            text = to_yaml(config, status.cell.origin)
            for absolute in sorted(absolute_paths(config.model_dump(mode="json")), key=len, reverse=True):
                text = text.replace(absolute, portable(absolute))
            yield Code(text, "yaml", f"All settings of the cell {status.cell.label}")
