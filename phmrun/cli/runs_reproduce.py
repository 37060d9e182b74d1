"""``phmrun runs reproduce``: train a run anew and see whether it is the same."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory
from phmrun.errors import ExitCode
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.engine.reproduction import Reproduction

_SHOWN = 10


def reproduce(
    run: RunArgument,
    *,
    directory: Annotated[
        Path | None,
        typer.Option("--in", metavar="DIR", help="Folder for the new run (default: reproduced/ beside the run)."),
    ] = None,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Trains a finished run anew from its own config and data, and compares weights and scores bit for bit.

    Says "identical" where they are; otherwise what differs, and what on record could explain it (exit code 4).
    """
    plugins = load_plugins(plugin)
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    with waiting("preparing"):
        import phmrun.engine.fit  # noqa: F401  (Lightning, which takes its time)
        from phmrun.engine import reproduction

    result = reproduction.reproduce(found, directory or found.path.parent / "reproduced", plugins=plugins)
    if as_json:
        console.print_json(_facts(result))
    else:
        _print(result)
    if not result.identical:
        raise typer.Exit(ExitCode.TRAINING)


def _facts(result: "Reproduction") -> dict[str, Any]:
    return {
        "run_id": result.run.id,
        "run_dir": str(result.run.path),
        "reproduced_dir": str(result.again.path),
        "identical": result.identical,
        "tensors": result.tensors,
        "weights": [row._asdict() for row in result.weights],
        "compared": result.compared,
        "scores": [row._asdict() for row in result.scores],
        "parted_at_step": result.parted,
        "explanations": result.explanations,
    }


def _print(result: "Reproduction") -> None:
    def say(text: str) -> None:
        console.stdout().print(text, markup=False, soft_wrap=True)

    if result.identical:
        say(f"identical: {result.tensors:,} tensors and {len(result.compared)} scores of {result.run.id}")
        return
    say(f"not identical: {len(result.weights):,} of {result.tensors:,} tensors, {len(result.scores)} scores differ")
    rows = [(row.checkpoint, row.name or "the whole file", row.largest) for row in result.weights[:_SHOWN]]
    if rows:
        console.print_table(("checkpoint", "tensor", "largest difference"), rows)
    if result.scores:
        console.print_table(("score", "before", "again"), [tuple(row) for row in result.scores])
    if result.parted is not None:
        say(f"the courses of training part at step {result.parted:,}")
    say("what could explain it:")
    for line in result.explanations:
        say(f"  {line}")
