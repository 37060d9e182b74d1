"""``phmrun table``: scores of a sweep or of some runs, in the shape that a paper would print."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.errors import ExitCode, PhmrunError, unknown

if TYPE_CHECKING:
    from phmrun.papers.layout import Laid
    from phmrun.papers.results import ResultTable

EPILOG = """Examples:

phmrun table configs/papers/phm/table5-small.yaml --paper --format md

phmrun table sweep.yaml --rows layer --cols task --agg mean

phmrun table nmt-builtin-phm-1 nmt-builtin-dense-1 --format latex"""

SHAPE = "Shape"
AGGREGATES = ("mean±std", "mean", "median", "best", "worst", "all")


class TableFormat(StrEnum):
    """How a table is written."""

    TEXT = "text"
    MD = "md"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


def table(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|RUN…]",
            help="A sweep's or a paper table's file, or runs (default: all runs that are done).",
            autocompletion=completion.runs,
        ),
    ] = None,
    *,
    rows: Annotated[
        str | None,
        typer.Option(metavar="KEY,…", help="What makes a row: keys of the sweep or the config.", rich_help_panel=SHAPE),
    ] = None,
    cols: Annotated[
        str | None, typer.Option(metavar="KEY,…", help="What makes a column, beside the score.", rich_help_panel=SHAPE)
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A score, as in test/bleu; may be repeated (default: the main one).",
            rich_help_panel=SHAPE,
        ),
    ] = None,
    agg: Annotated[
        str, typer.Option(metavar="|".join(AGGREGATES), help="How seeds are put together.", rich_help_panel=SHAPE)
    ] = "mean±std",
    paper: Annotated[
        bool, typer.Option("--paper", help="Set what the paper prints, and the difference, beside our scores.")
    ] = False,
    significance: Annotated[
        bool,
        typer.Option(
            "--significance/--no-significance",
            help="Say which cells differ from the dense one, by seeds and test items together.",
        ),
    ] = True,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="δ, in units of the score: what is not worse by more counts as equal (default: 0.5 of BLEU, accuracy "
            "and attachment; 0: only differences are sought).",
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Of a sweep: only cells with this value.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Of a sweep: so many seeds of every cell.")] = None,
    style: Annotated[TableFormat, typer.Option("--format", help="How the table is written.")] = TableFormat.TEXT,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Shows scores by row and column: mean and deviation over seeds, missing cells as –, signatures below.

    CSV and JSON have one line or object per cell, with every number unrounded.
    """
    if agg not in AGGREGATES:
        raise unknown("aggregate", agg, AGGREGATES, where="--agg")
    shape = {"rows": _listed(rows), "columns": _listed(cols), "scores": score or []}
    found = results(what or [], runs_dir, only=only, seeds=seeds, **shape)
    if paper and all(heading.column is None for heading in found.headings):
        raise PhmrunError("there are no published scores to set beside these", where="--paper", hint="Name a table.")
    differences = {}
    if significance:
        from phmrun.papers.significance import differences as compare

        differences = compare(found, margin)
    from phmrun.papers.layout import lay_out, plain_rows

    if as_json or style is TableFormat.JSON:
        console.print_json({"title": found.title, "cells": plain_rows(found, differences)})
    elif style is TableFormat.CSV:
        _print_csv(plain_rows(found, differences))
    else:
        _print(lay_out(found, agg, differences, paper=paper), style)
    require_runs(found, runs_dir)


def require_runs(found: "ResultTable", runs_dir: Path) -> None:
    """Refuses, after all that is known was shown, a table in which no cell has a run.

    Raises:
        PhmrunError: (exit 3) There is none.
    """
    if not any(figure.runs for line in found.figures for figure in line):
        raise PhmrunError(
            f"none of its cells has a finished run in {runs_dir}",
            where=found.title or None,
            hint="`phmrun sweep FILE --plan` shows how far the cells are; --runs-dir names another directory of runs.",
            code=ExitCode.DATA,
        )


def results(
    what: Sequence[str],
    runs_dir: Path,
    *,
    only: Sequence[str] | None = None,
    seeds: int | None = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    scores: Sequence[str] = (),
) -> "ResultTable":
    """The results of what a user names: a file is a sweep, everything else are runs; nothing stands for all runs.

    Args:
        what: Files or references of runs.
        runs_dir: The directory of all runs.
        only: Of a sweep: ``key=value`` of the cells to keep.
        seeds: Of a sweep: so many seeds of every cell.
        rows: Keys that make a row, instead of the usual ones.
        columns: Keys that make a column.
        scores: Names of scores, instead of the main ones.

    Raises:
        PhmrunError: What is named does not exist, or no run is done.
    """
    from phmrun.ledger import Run
    from phmrun.ledger.listing import list_runs, summarise
    from phmrun.ledger.status import State
    from phmrun.sweeps.results import table_of_runs, table_of_sweep

    if len(what) == 1 and what[0].endswith((".yaml", ".yml")):
        from phmrun.cli.sweep_output import tell_faults
        from phmrun.cli.sweep_tuning import chosen
        from phmrun.cli.sweep_work import planned
        from phmrun.sweeps.cell_status import survey

        made = chosen(planned(what[0], only, seeds, ledger=runs_dir), runs_dir)
        statuses = survey(made, runs_dir)
        tell_faults(statuses)
        return table_of_sweep(made, statuses, rows=rows, columns=columns, scores=scores)
    summaries = [summarise(Run.find(runs_dir, name).path) for name in what] if what else list_runs(runs_dir)
    done = [run for run in summaries if run is not None and (what or run.state == State.DONE)]
    if not done:
        raise PhmrunError(f"no run in {runs_dir} is done")
    from phmrun.layers import options_of  # imports torch

    return table_of_runs(done, rows=rows, columns=columns, scores=scores, options_of=options_of)


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _print(laid: "Laid", style: TableFormat) -> None:
    """Title, table and notes, in one of the formats for readers."""
    from phmrun.cli.formats import Format, print_formatted
    from phmrun.escaping import latex, markdown, one_line

    if style is TableFormat.TEXT:
        if laid.title:
            console.stdout().print(laid.title, style="italic", markup=False, soft_wrap=True)
        console.print_table(laid.columns, laid.rows)
        for note in laid.notes:
            console.stdout().print(note, markup=False, highlight=False, soft_wrap=True)
        return
    if style is TableFormat.MD:
        if laid.title:
            print(f"**{markdown(laid.title)}**\n")
        print_formatted(laid.columns, laid.rows, Format.MD)
        print("".join(f"\n{markdown(note)}\n" for note in laid.notes), end="")
        return
    if laid.title:
        print(f"% {one_line(laid.title)}; the package booktabs draws the rules")
    print_formatted(laid.columns, laid.rows, Format.LATEX)
    for note in laid.notes:
        breakable = latex(note).replace("$|$", "$|$\\allowbreak{}")
        print(f"\\par{{\\footnotesize {breakable}}}")


def _print_csv(rows: list[dict[str, object]]) -> None:
    """One line per cell; lists are joined by spaces."""
    from phmrun.cli.formats import Format, print_formatted

    columns = list(rows[0]) if rows else []
    lines = [[" ".join(map(str, v)) if isinstance(v, list) else v for v in row.values()] for row in rows]
    print_formatted(columns, lines, Format.CSV)
