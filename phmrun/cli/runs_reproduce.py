"""``phmrun runs reproduce``: train a finished run again and compare it bit for bit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory
from phmrun.errors import ExitCode, counted
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.engine.reproduction import Reproduction

_ROWS_OF_TENSORS = 10


def reproduce(
    run: RunArgument,
    directory: Annotated[Path | None, typer.Option("--in", metavar="DIR")] = None,
    data_dir: Annotated[list[Path] | None, typer.Option(metavar="DIR")] = None,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Train a finished run again and compare weights and scores bit for bit.

    Prints "identical", or the differences and their possible causes (exit code 4).

    Args:
        directory: Directory of the new run (default: reproduced/ next to the run).
        data_dir: Folder with the run's own data files, found by checksum (default: their recorded paths); may be
            repeated.
    """
    plugins = load_plugins(plugin)
    from phmrun.ledger import Run

    original = Run.find(runs_dir, run)
    with waiting("preparing"):
        import phmrun.engine.fit  # noqa: F401  (Lightning takes seconds to import)
        from phmrun.engine import reproduction

    place = directory or original.path.parent / "reproduced"
    result = reproduction.reproduce(original, place, plugins=plugins, data_dirs=data_dir or ())
    if as_json:
        facts = {
            "run_id": result.run.id,
            "run_dir": result.run.path,
            "reproduced_dir": result.again.path,
            "identical": result.identical,
            "tensors": result.tensors,
            "weights": [row._asdict() for row in result.weights],
            "compared": result.compared,
            "scores": [row._asdict() for row in result.scores],
            "parted_at_step": result.parted,
            "explanations": result.explanations,
            "verdict": str(result.agreement.outcome),
            "sentence": result.agreement.sentence,
        }
        console.print_json(facts)
    else:
        _print_reproduction(result)
    if not result.identical:
        raise typer.Exit(ExitCode.TRAINING)


def _print_reproduction(result: "Reproduction") -> None:
    """Print "identical", or the differences and their possible causes.

    The differences are in weights (tensors among the first 10 rows), scores, and the first step of another history. A
    sentence on the agreement is last, unless all is identical.
    """

    def say(text: str) -> None:
        """Print a line on standard output."""
        console.stdout().print(text, markup=False, soft_wrap=True)

    if result.identical:
        say(f"identical: {result.tensors:,} tensors and {len(result.compared)} scores of {result.run.id}")
        return
    files = sum(not row.name for row in result.weights)
    counts = [f"{len(result.weights) - files:,} of {result.tensors:,} tensors"] if len(result.weights) > files else []
    counts += [counted(files, "checkpoint")] if files else []
    say(f"not identical in {', '.join([*counts, counted(len(result.scores), 'score')])}")
    rows = [(row.checkpoint, row.name, row.largest) for row in result.weights[:_ROWS_OF_TENSORS] if row.name]
    if rows:
        console.print_table(("checkpoint", "tensor", "largest difference"), rows)
    if result.scores:
        console.print_table(("score", "before", "again"), [tuple(row) for row in result.scores])
    if result.parted is not None:
        say(f"first figure of the history with another digit: step {result.parted:,}")
    say("what could explain it:")
    for line in result.explanations:
        say(f"  {line}")
    say(result.agreement.sentence)
