"""``phmrun bench embeddings``: what looking words up costs once an embedding is trained."""

from typing import Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Device
from phmrun.cli.measuring import MEASURED, Repeats, Threads, duration, name_and_options, prepare_process, print_machine
from phmrun.cli.options import Json
from phmrun.registry import EMBEDDINGS

EPILOG = """Example:

phmrun bench embeddings --embedding "define depth=7 width=128" --words 10000 --width 400 --tokens 1400"""


def bench_embeddings(
    *,
    embedding: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Embedding, with options if need be: 'define depth=7'; may be repeated (default: all).",
            rich_help_panel=MEASURED,
            autocompletion=completion.embeddings,
        ),
    ] = None,
    words: Annotated[int, typer.Option(min=1, help="Entries of the vocabulary.", rich_help_panel=MEASURED)] = 10_000,
    width: Annotated[int, typer.Option(min=1, help="Numbers of a vector (m).", rich_help_panel=MEASURED)] = 384,
    tokens: Annotated[int, typer.Option(min=1, help="Words looked up per call.", rich_help_panel=MEASURED)] = 1400,
    repeats: Repeats = 15,
    threads: Threads = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measures lookups at inference against nn.Embedding: as scoring and prediction make them, and computed anew.

    Folded: the table of all vectors, made once. Kept: the same table inside the module, looked after by it in case a
    weight changes. Computed: the vectors of these words from the weights, as training does.
    """
    chosen = [name_and_options(text, "--embedding") for text in embedding or EMBEDDINGS.names()]
    from phmrun.bench import embeddings, machine
    from phmrun.engine.trained_model import choose_device
    from phmrun.layers.structure import checked_options

    prepare_process(threads)
    place = choose_device(device)
    checked = [(name, checked_options(name, options, table=True)) for name, options in chosen]
    machine.warn_if_busy()
    facts = {**machine.facts(), "device": place}
    rows = list(embeddings.measure(checked, words=words, width=width, tokens=tokens, rounds=repeats, device=place))
    if as_json:
        console.print_json({"machine": facts, "rows": [row.to_json() for row in rows]})
        return
    print_machine(facts)
    forms = list(rows[0].ratios)
    lines = [
        (
            row.embedding,
            f"{row.parameters:,}",
            duration(row.seconds[embeddings.REFERENCE]),
            *(f"{row.ratios[form]:.2f}" for form in forms),
            f"{row.difference:.0e}",
        )
        for row in rows
    ]
    title = f"\n{tokens:,} of {words:,} words, {width} numbers each; ratios to {embeddings.REFERENCE}"
    columns = ("embedding", "parameters", embeddings.REFERENCE, *forms, "difference")
    console.print_table(columns, lines, title=title)
