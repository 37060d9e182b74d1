"""``phmrun bench trees``: how fast spanning trees are found."""

from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.measuring import MEASURED, Repeats, Threads, numbers, prepare_process, print_machine
from phmrun.cli.options import Json


def bench_trees(
    *,
    length: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS,…", help="Words of a sentence (default: 10,20,40).", rich_help_panel=MEASURED),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences per call.", rich_help_panel=MEASURED)] = 64,
    repeats: Repeats = 5,
    threads: Threads = 0,
    as_json: Json = False,
) -> None:
    """Measures spanning trees with one root, beside supar's if that is installed, on the CPU.

    Scores are random, so that every sentence must be searched, or peaked as a trained parser's, whose best heads
    mostly are a tree.
    """
    lengths = numbers(length, "--length")
    from phmrun.bench import machine, trees

    prepare_process(threads)
    if not trees.has_supar():
        console.stderr().print("left out: supar's spanning trees: not installed", markup=False)
    machine.warn_if_busy()
    facts = {**machine.facts(), "device": "cpu"}
    rows = list(trees.measure(lengths or trees.LENGTHS, sentences=sentences, rounds=repeats))
    if as_json:
        console.print_json({"machine": facts, "rows": [row.to_json() for row in rows]})
        return
    print_machine(facts)
    others = list(rows[0].ratios)
    lines = [
        (
            row.scores,
            row.words,
            row.sentences,
            f"{row.searched:.0%}",
            round(row.rates[trees.OURS]),
            *(cell for name in others for cell in (round(row.rates[name]), f"{row.ratios[name]:.1f}×")),
        )
        for row in rows
    ]
    beside = [cell for name in others for cell in (name, "ratio")]
    columns = ("scores", "words", "batch", "searched", trees.OURS, *beside)
    console.print_table(columns, lines, title="\nSentences per second")
