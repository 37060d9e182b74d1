"""Report of a sweep or of runs as one page: outcome, table, pictures, runs, settings, environments, command.

Paths below the data directory or the user's home are shortened, since other people read the pages.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from phmrun.config import load_run_config, to_yaml
from phmrun.config.options import options_of
from phmrun.errors import PhmrunError, counted
from phmrun.escaping import fenced, markdown, printable, shell_word
from phmrun.files import read_text, write_text
from phmrun.ledger import State, environment
from phmrun.ledger.record import absolute_paths, portable
from phmrun.ledger.wording import duration, number, row_name, shared, title
from phmrun.metric import metric_of
from phmrun.results.baselines import baseline_rows
from phmrun.results.comparison import Comparisons, differences
from phmrun.results.costs import points_of
from phmrun.results.layout import lay_out
from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.runs import choose_score, curves, draw_history
from phmrun.results.plots.sweeps import draw_pareto
from phmrun.results.render import html_table, markdown_page, markdown_table
from phmrun.results.table import ResultTable
from phmrun.statistics.welch import interval_words
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.cell_status import LEFT, CellState, CellStatus, Estimate, distinct, look, tally
from phmrun.sweeps.plan import Plan
from phmrun.sweeps.results import View
from phmrun.sweeps.selection import SEED

MOST_CURVES = MOST_DIFFERENCES = 12


class Picture(NamedTuple):
    """SVG file with a caption."""

    path: Path
    caption: str

    @property
    def data(self) -> str:
        """Content of the file in base64, to be embedded."""
        return base64.b64encode(self.path.read_bytes()).decode("ascii")


class Subject(NamedTuple):
    """Sweep or runs that a report is about: title, commands that make it again, and the sweep's file."""

    title: str
    commands: str
    file: Path | None = None


def subject_of(plan: Plan) -> Subject:
    """Return the sweep of a plan as the subject of a report."""
    where = portable(shared(plan.sweep.where))
    seeds = max(len({cell.at[SEED] for cell in plan.cells}), 1)
    word = re.sub(r"^'(~|\$PHMRUN_DATA)/", r"\1/'", shell_word(where))  # the shell expands what is not quoted
    commands = f"phmrun sweep {word} --seeds {seeds}\nphmrun report {word}"
    return Subject(plan.sweep.title or where, commands, Path(plan.sweep.where))


def cells_of(view: View) -> list[CellStatus]:
    """Return the runs of results as cells of a table's rows, with their states."""
    statuses = []
    for entry in view.results.entries:
        if entry.run is not None:
            config = None
            with suppress(PhmrunError):  # this release rejects it
                config = load_run_config(entry.run.config_path, options_of=options_of)
            at = {**{key: entry.label(key) for key in view.table.keys}, SEED: entry.seed}
            cell = Cell(at, config, {}, entry.run.path.name, entry.run.about("parameters"), None)
            statuses.append(look(cell, entry.run.path.parent))
    return statuses


def outcome(table: ResultTable, compared: Comparisons, statuses: Sequence[CellStatus]) -> str:
    """Return the outcome in one sentence, for the table's first column with a score.

    It has the verdicts beside the baseline and the best row, or the best row and why there is no verdict. If cells are
    not done, it begins with their number.
    """
    done = tally(statuses).get(CellState.DONE, 0)
    text = _outcome(table, compared)
    if done < len(statuses):
        return f"So far, with {done} of {len(statuses)} cells done, {text}"
    return text[0].upper() + text[1:]


def _outcome(table: ResultTable, compared: Comparisons) -> str:
    """Return the sentence of :func:`outcome`, with a small first letter."""
    means = {place: figure.mean for place, figure in table.cells.items() if figure.mean is not None}
    if not means:
        return "no cell has a score."
    column = min(column for _, column in means)
    score = table.headings[column].score
    sign = -1 if metric_of(score).lower_is_better else 1
    judged = {row: comparison for (row, at), comparison in sorted(compared.items()) if at == column}
    scores = {row: mean for (row, at), mean in means.items() if at == column}
    best = max([row for row in scores if row in judged] or scores, key=lambda row: sign * scores[row])
    judged = judged if best in judged else {}  # rows whose runs have all diverged have no score
    under = "" if table.headings[column].name == score else table.under(column)
    name, measured = table.names[best] or "the network", f"{title(score)}{under}"
    size = f" with {sizes[0]:,} parameters" if (sizes := table.parameters(best, column)) else ""
    if not judged:
        why = "nothing is compared, since a verdict needs two or more seeds of a row and of dense"
        return f"the best {measured} is {scores[best]:.2f}, of {name}{size}; {why}."
    difference = judged[best].judgement.difference
    delta = f" ({difference.value:+.2f}, {interval_words(difference.low, difference.high)})" if difference else ""
    also = [
        f"; in {title(table.headings[other].score)}, {pair.words}"
        for (row, other), pair in sorted(compared.items())
        if row == best and other != column and pair.verdict != judged[best].verdict
    ]
    end = f"{scores[best]:.2f}{delta}{size}{''.join(also)}."
    if len(judged) == 1:
        return f"beside the baseline, {name} is {judged[best].words} in {measured}: {end}"
    counts = Counter(comparison.words for comparison in judged.values())
    listed = "; ".join(f"{count} {words}" for words, count in counts.items())
    return f"beside the baseline in {measured}, of {len(judged)} rows: {listed}; the best of them is {name}, {end}"


def write_report(
    subject: Subject,
    statuses: Sequence[CellStatus],
    table: ResultTable,
    path: Path,
    trials: Sequence[CellStatus] = (),
    *,
    refresh: float = 0.0,
) -> list[Path]:
    """Write the report as HTML, its main parts as Markdown, and its pictures.

    Return the written files: HTML, Markdown, then pictures. Sections: results, pictures (if any), runs with faults of
    cells, settings, environment, and the command to reproduce them. It begins with the :func:`outcome`, counts of cells
    and of trials by state, time of training of all runs, the time left while some train, and date.

    Args:
        subject: The sweep or runs.
        statuses: States of its cells.
        table: Its results.
        path: The HTML file; the other files are beside it and named after it. A missing directory is created. Existing
            files are replaced.
        trials: States of the trials of tuning.
        refresh: Seconds after which a browser loads the page again; 0: never.

    Raises:
        PhmrunError: (exit 3) A run's history differs from its manifest.
    """
    pictures = [*_pareto(table, path, subject.title), *_curves(statuses, path, subject.title)]
    totals = ""
    for unit, group in (("cell", statuses), ("trial", trials)):
        counts = " · ".join(f"{count} {kind}" for kind, count in tally(group).items())
        totals += f"{counted(len(group), unit)}: {counts}. " if group else ""
    seconds = sum(s.run.status.seconds for s in distinct([*trials, *statuses]) if s.run and s.run.status)
    totals += f"{duration(seconds)} of training in all."
    left = [status for status in distinct([*trials, *statuses]) if status.state in LEFT]
    slots = sum(status.state is CellState.RUNNING for status in left)
    if slots and (time_left := Estimate([*trials, *statuses]).total(left, slots)) is not None:
        totals += f" About {duration(time_left)} left."
    paper = any(heading.printed is not None for heading in table.headings)
    compared = differences(table)
    tables, notes = lay_out(table, compared, paper=paper)
    content = {
        "title": subject.title,
        "refresh": refresh,
        "outcome": outcome(table, compared, statuses),
        "opening": f"{totals} Written {environment.now()}.",
        "tables": tables,
        "notes": notes,
        "pictures": pictures,
        "runs": _runs(statuses),
        "faults": dict.fromkeys(str(status.cell.fault) for status in statuses if status.cell.fault),
        "settings": list(_settings(subject, statuses)),
        "environments": environments(statuses),
        "command": subject.commands,
    }
    jinja = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else printable(shared(str(value))),
        trim_blocks=True,
    )
    jinja.globals["html_table"] = lambda columns, rows: Markup(html_table(columns, rows))
    write_text(path, jinja.get_template("page.jinja").render(content))
    write_text(path.with_suffix(".md"), _markdown_page(content))
    return [path, path.with_suffix(".md"), *(picture.path for picture in pictures)]


def _markdown_page(content: Mapping[str, Any]) -> str:
    """Return outcome, results, pictures, runs and the command of a report as Markdown."""
    opening = [content["outcome"], content["opening"], *(f"Not run: {fault}" for fault in content["faults"])]
    parts = [f"# {markdown(shared(content['title']))}", *(markdown(shared(text)) for text in opening)]
    parts.append(markdown_page("", content["tables"], content["notes"]).strip())
    parts += [f"![{markdown(picture.caption)}]({quote(picture.path.name)})" for picture in content["pictures"]]
    parts += ["## Runs", markdown_table(*content["runs"]).strip(), "## Reproduce", fenced(shared(content["command"]))]
    return "\n\n".join(parts) + "\n"


def _pareto(table: ResultTable, path: Path, heading: str) -> Iterable[Picture]:
    """Draw score against parameters for each column with at least two networks.

    A network is a row with both. Writes an SVG file beside ``path`` for each picture, and yields it.
    """
    for place, column in enumerate(table.headings):
        points = points_of(table, place)
        if len(points) > 1:
            file = path.with_name(f"{path.stem}-pareto-{place + 1}.svg")
            baselines = {row.label: value for row in baseline_rows(table) if (value := row.values[place]) is not None}
            save_figure(draw_pareto(points, column.score, heading=heading, baselines=baselines), file)
            yield Picture(file, f"{column.name} against parameters; mean and deviation over seeds")


def _curves(statuses: Sequence[CellStatus], path: Path, heading: str) -> Iterable[Picture]:
    """Draw training curves, one picture per task.

    They are those of each cell's first seed that is done or trains, with two validations. At most 12 cells of a task
    are drawn, over optimizer steps. A task is skipped if its histories have no common score, or one of an early release
    is damaged. Writes an SVG file
    beside ``path`` for each picture, and yields it.

    Raises:
        PhmrunError: (exit 3) A history differs from its manifest.
    """
    first: dict[tuple[Any, ...], CellStatus] = {}
    for status in statuses:
        if not (status.run and status.cell.config and status.state in (CellState.DONE, CellState.RUNNING)):
            continue
        if any(key.startswith("val/") for row in status.run.history.rows() for key in row):
            first.setdefault((status.cell.config.task, *status.cell.row), status)
    for task in dict.fromkeys(key[0] for key in first):
        chosen = [status for key, status in first.items() if key[0] == task][:MOST_CURVES]
        runs = [status.run for status in chosen if status.run]
        for run in runs:
            if run.status.state is State.DONE:
                run.manifest.check(run.history.path)
        try:
            score = choose_score(runs, None)
            drawn = curves(runs, score, "step")
        except PhmrunError:
            continue  # the histories have no common score, or an older one is damaged
        drawn = [curve._replace(label=status.cell.label) for curve, status in zip(drawn, chosen, strict=True)]
        drawn = [curve for curve in drawn if len(curve.places) > 1]  # one point is no curve
        if not drawn:
            continue
        file = path.with_name(f"{path.stem}-{task}-history.svg")
        save_figure(draw_history(drawn, score, "step", heading=heading), file)
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


def _settings(subject: Subject, statuses: Sequence[CellStatus]) -> Iterable[tuple[str, str]]:
    """Yield titles and texts of the sweep's file and of whole configurations.

    The file is left out if it does not exist. Configurations are those of the first cell of each task.
    """
    if subject.file and subject.file.is_file():
        yield f"The sweep, {portable(shared(str(subject.file)))}", read_text(subject.file)
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

    A note has the differences between cells, at most 12, or says that there are none. There are no rows without any
    record.
    """
    by_cell = {status.cell.label: status.run.environment() for status in statuses if status.run}
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
    return ("environment", "cells"), rows, notes


def _by_row(cells: Sequence[Cell]) -> str:
    """Return a text with the numbers of cells by row: "phm n=2: 2 seeds; phm n=4: 1 seed"."""
    counts = Counter(row_name(dict(cell.row)) for cell in cells)
    return "; ".join(f"{row}: {counted(count, 'seed')}" for row, count in counts.items())
