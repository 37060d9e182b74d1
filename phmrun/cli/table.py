"""``phmrun table``: scores of a sweep or of runs as a table for a paper."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Json, Plugin, RunsDirectory, listed
from phmrun.errors import PhmrunError, counted
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.results.comparison import Comparisons, RowComparison
    from phmrun.results.layout import Grid
    from phmrun.results.table import ResultTable
    from phmrun.sweeps.results import View


NOTES = 5
"""Lines of notes on a terminal, beside that which says how many there are besides."""
of_shape = partial(typer.Option, rich_help_panel="Shape")


def table(
    what: Annotated[list[str] | None, typer.Argument(metavar="[FILE|RUN…]", autocompletion=completion.runs)] = None,
    rows: Annotated[str | None, of_shape(metavar="KEY,…")] = None,
    cols: Annotated[str | None, of_shape(metavar="KEY,…")] = None,
    score: Annotated[list[str] | None, of_shape(metavar="NAME")] = None,
    paper: Annotated[bool, typer.Option("--paper")] = False,
    significance: Annotated[bool, typer.Option("--significance/--no-significance")] = True,
    every_pair: Annotated[bool, typer.Option("--all-pairs")] = False,
    margin: Annotated[float | None, typer.Option(min=0)] = None,
    costs: Annotated[str | None, of_shape(metavar="COST,…")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None,
    seeds: Annotated[int | None, typer.Option(min=1)] = None,
    style: Annotated[Literal["text", "md", "latex", "csv"], typer.Option("--format")] = "text",
    explain: Annotated[bool, typer.Option("--explain")] = False,
    papers: Annotated[bool, typer.Option("--list")] = False,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show a table of scores: mean ± standard deviation over seeds, verdicts, signatures.

    Missing cells are –. A terminal shows a table for each task. CSV and --json have one line or object per cell, with
    unrounded numbers; with --all-pairs, CSV has one line per pair, --json both. Exit code 3, after the table, if no
    cell has a finished run.

    Args:
        what: Sweep file, paper table's file, or runs (default: all finished runs).
        rows: Keys of the sweep or configuration that define the rows.
        cols: Keys that define the columns, besides the score.
        score: Score: test/bleu; may be repeated (default: the main score).
        paper: Add the paper's printed scores, and the differences to ours.
        significance: Add verdicts on the differences from the dense baseline, over seeds and test items.
        every_pair: Compare all rows with one another instead of with dense: intervals are simultaneous over all pairs.
        margin: Equivalence margin δ, in units of the score (default: 0.5 for BLEU, accuracy and attachment; 0: test for
            differences only).
        costs: Columns of costs besides parameters: trained, multiplications (per token), training-time, clock-step,
            clock-sentence, weights-size, step-time (of `bench run`), file-size, serving-memory, latency (of `export
            --compare`).
        only: Sweep: only cells with this value.
        seeds: Sweep: number of seeds per cell.
        style: Format of the table; for JSON: --json.
        explain: Print all notes below the table; otherwise a terminal shows five lines of them.
        papers: List the papers' tables, and show none.

    Examples:
        phmrun table configs/papers/phm/table5-small.yaml --paper --format md
        phmrun table sweep.yaml --rows layer --cols task
        phmrun table sweep.yaml --costs multiplications,step-time
        phmrun table nmt-builtin-phm-1 nmt-builtin-dense-1 --format latex
    """
    if papers:
        _list_papers(as_json)
        return
    load_plugins(plugin)
    with waiting("preparing"):
        from phmrun.cli.sweep_output import tell_faults
        from phmrun.results import render
        from phmrun.results.baselines import baseline_rows
        from phmrun.results.comparison import all_pairs, differences
        from phmrun.results.costs import require_cost
        from phmrun.results.layout import lay_out, pair_facts, plain_rows
        from phmrun.sweeps.results import Asked, view

    shown = [require_cost(name, "--costs") for name in listed(costs)]
    asked = Asked(only, seeds, listed(rows), listed(cols), score or [])
    selection = view(what or [], runs_dir, asked)
    tell_faults(selection.statuses)
    table = selection.table
    if paper and all(heading.printed is None for heading in table.headings):
        raise PhmrunError("there are no published scores for these", where="--paper", hint="Name a paper table's file.")
    if every_pair and not significance:
        raise PhmrunError("all pairs cannot be compared with --no-significance", where="--all-pairs")

    def compared(part: "View") -> "tuple[Comparisons, list[RowComparison]]":
        """Return the comparisons with the dense cells, and those of all pairs; empty if they are not asked for."""
        beside_dense = differences(part.table, margin) if significance and not every_pair else {}
        return beside_dense, all_pairs(part.table, margin) if every_pair else []

    def laid(part: "View") -> "tuple[list[Grid], list[str]]":
        """Return the tables of a view, and their notes."""
        return lay_out(part.table, *compared(part), paper=paper, costs=shown)

    if as_json or style == "csv":
        beside_dense, pairs = compared(selection)
        cells, facts = plain_rows(table, beside_dense, shown), pair_facts(table, pairs)
        if as_json:
            baselines = [
                {"name": row.name, "floor": row.is_floor, "values": list(row.values)} for row in baseline_rows(table)
            ]
            further = {"pairs": facts} if every_pair else {}
            console.print_json({"title": table.title, "cells": cells, "baselines": baselines, **further})
        else:
            print(render.csv_cells(facts if every_pair else cells), end="", flush=True)
    elif style == "text":
        for number, part in enumerate(selection.by_task(asked) if console.stdout().is_terminal else [selection]):
            if number:
                print()
            _print(part.table, *laid(part), explain)
    else:
        write = render.markdown_page if style == "md" else render.latex_page
        print(write(table.title, *laid(selection)), end="", flush=True)
    selection.require_runs((what or [""])[0], runs_dir)


def _list_papers(as_json: bool) -> None:
    """Print the files of the papers' tables, their titles, and which have a reduced setting beside them."""
    from phmrun.config import packaged_names
    from phmrun.papers.table import load_table, table_names

    tables = [(name, load_table(name).title) for name in table_names()]
    reduced = {name.replace("-small.yaml", ".yaml") for name in packaged_names() if name.endswith("-small.yaml")}
    if as_json:
        console.print_json([{"file": name, "title": title, "reduced": name in reduced} for name, title in tables])
        return
    rows = [(name, title, "-small" if name in reduced else "") for name, title in tables]
    console.print_table(("file", "title", "reduced"), rows, drop=("reduced",))


def _print(table: "ResultTable", tables: "Sequence[Grid]", notes: Sequence[str], explain: bool) -> None:
    """Print title, scores, verdicts and notes on standard output.

    Title and verdicts are left out if there are none. A narrow terminal keeps scores, verdicts and parameters: counts
    and p-values go first, and the columns of the rows' keys are folded. A key is shortened to its last part on a
    terminal if that is unambiguous. Without ``explain``, a terminal shows five lines of notes.
    """
    screen = console.stdout()
    if table.title:
        console.print_line(table.title, style="italic")
    (columns, rows), *verdicts = tables
    keys = table.keys
    last = [key.rpartition(".")[2] for key in keys]
    shown = [end if screen.is_terminal and last.count(end) == 1 else key for key, end in zip(keys, last, strict=True)]
    console.print_table([*shown, *columns[len(keys) :]], rows, drop=("seeds",), labels=shown)
    for headings, lines in verdicts:
        print()
        labels = ("row", "beside", "score", "verdict")
        console.print_table(headings, lines, drop=("detectable", "seeds", "p"), labels=labels)
    room = NOTES if screen.is_terminal and not explain else math.inf
    for number, note in enumerate(notes):
        room -= len(wrap(note, screen.width))
        if room < 0:
            console.print_note(f"{counted(len(notes) - number, 'more note')}: --explain")
            return
        console.print_note(note)
