"""``phmrun eval``: score a trained run again, on another split or with another search."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import HARDWARE, Json, Plugin, RunArgument, RunsDirectory
from phmrun.registry import load_plugins

DECODING = "Decoding"
EPILOG = """Example:

phmrun eval nmt-multi30k-phm-1 --split test --beam 5 --alpha 0.6 --average 8"""

Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Hypotheses kept per sentence; 1: greedy (default: the run's).", rich_help_panel=DECODING),
]
Alpha = Annotated[
    float | None,
    typer.Option(min=0, help="Strength of the length penalty (default: the run's).", rich_help_panel=DECODING),
]
Checkpoint = Annotated[
    str | None, typer.Option(help="best, last, or a file (default: what training scored).", rich_help_panel="Run")
]
Average = Annotated[
    int | None,
    typer.Option(min=0, help="Mean of so many last checkpoints; 0: none (default: the run's).", rich_help_panel="Run"),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, help="Sentences at a time (default: the run's).", rich_help_panel=HARDWARE)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …", rich_help_panel=HARDWARE)]


def evaluate(
    run: RunArgument,
    *,
    split: Annotated[str, typer.Option(help="Part of the data: test, dev …", rich_help_panel="Data")] = "test",
    beam: Beam = None,
    alpha: Alpha = None,
    checkpoint: Checkpoint = None,
    average: Average = None,
    batch_size: BatchSize = None,
    device: Device = "auto",
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Scores a run and writes metrics.json and the predictions into its directory."""
    load_plugins(plugin)
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    from phmrun.training import experiment

    overrides = {"beam": beam, "alpha": alpha}
    metrics = experiment.evaluate(
        found,
        split=split,
        decoding={name: value for name, value in overrides.items() if value is not None},
        checkpoint=checkpoint,
        average=average,
        batch_size=batch_size,
        device=device,
    )
    if as_json:
        console.print_json({"run_id": found.id, "run_dir": str(found.path), "metrics": metrics})
    else:
        console.print_scores(metrics)
