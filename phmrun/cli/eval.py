"""``phmrun eval``: score a trained run again, on another split or with another search."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.decoding import DecodingOptions
from phmrun.cli.options import Json, RunArgument, RunsDirectory, spread
from phmrun.registry import load_plugins

EPILOG = """Example:

phmrun eval nmt-multi30k-phm-1 --split test --beam 5 --alpha 0.6 --average 8"""


@spread
def evaluate(
    run: RunArgument,
    options: DecodingOptions,
    *,
    split: Annotated[str, typer.Option(help="Part of the data: test, dev …", rich_help_panel="Data")] = "test",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Scores a run and writes metrics.json and the predictions into its directory."""
    load_plugins(options.plugin)
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    from phmrun.engine import experiment

    metrics = experiment.evaluate(
        found,
        split=split,
        decoding=options.decoding(),
        checkpoint=options.checkpoint,
        average=options.average,
        batch_size=options.batch_size,
        device=options.device,
    )
    if as_json:
        console.print_json({"run_id": found.id, "run_dir": str(found.path), "metrics": metrics})
    else:
        console.print_scores(metrics)
