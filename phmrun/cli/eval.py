"""``phmrun eval``: score a trained run again, on another split or with another search."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.decoding import DecodingOptions
from phmrun.cli.options import DATA, Json, RunArgument, RunsDirectory, spread
from phmrun.errors import PhmrunError
from phmrun.progress import waiting
from phmrun.registry import load_plugins

EPILOG = """Example:

phmrun eval nmt-multi30k-phm-1 --split test --beam 5 --alpha 0.6 --average 8

phmrun eval nmt-multi30k-phm-1 --src newstest.en --tgt newstest.de"""

of_data = partial(typer.Option, rich_help_panel=DATA)


@spread
def evaluate(
    run: RunArgument,
    options: DecodingOptions,
    split: Annotated[str | None, of_data(help="Part of the run's data: test (default), dev …")] = None,
    test: Annotated[
        Path | None, of_data(metavar="FILE", help="Another test file, read as the run's own files are.")
    ] = None,
    source: Annotated[Path | None, of_data("--src", metavar="FILE", help="Another test set: source.")] = None,
    target: Annotated[Path | None, of_data("--tgt", metavar="FILE", help="Another test set: target.")] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Scores a run and writes metrics.json and the predictions into its directory.

    Scores of another test file are named for it, file-NAME-CHECKSUM/…, and never stand for the run's own test set; the
    run's own test set is known by its content, wherever it lies.
    """
    pair = [path for path in (source, target) if path]
    files = [test] if test else pair
    if files and split is not None:
        raise PhmrunError("a split and a file are both to be scored", where="--split", hint="Give one of them.")
    if pair and (test or len(pair) == 1):
        raise PhmrunError("parallel text needs a source and a target", where="--src", hint="Give --src and --tgt.")
    load_plugins(options.plugin)
    from phmrun.ledger import Run

    # Before torch is imported, which takes seconds, so that a mistyped name is told at once.
    found = Run.find(runs_dir, run)
    with waiting("preparing"):
        from phmrun.engine.arithmetic import set_threads
        from phmrun.engine.trained_model import evaluate_run, open_run

        set_threads()
    metrics = evaluate_run(
        open_run(found),
        split=split or "test",
        decoding=options.decoding(),
        checkpoint=options.checkpoint,
        average=options.average,
        batch_size=options.batch_size,
        device=options.device,
        files=files,
    )
    if as_json:
        console.print_json({"run_id": found.id, "run_dir": str(found.path), "metrics": metrics})
    else:
        console.print_scores(metrics)
