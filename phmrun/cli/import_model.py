"""``phmrun import``: a trained model from elsewhere as a run."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory

EPILOG = """Example:

phmrun import opus-mt-en-de --task nmt --data multi30k --source en --target de"""


def import_model(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A T5 or Marian checkpoint of Hugging Face's, as safetensors.")
    ],
    task: Annotated[str, typer.Option(help="A sequence-to-sequence task: nmt, style.")] = "nmt",
    data: Annotated[str | None, typer.Option(help="Dataset that the run is scored on (default: the task's).")] = None,
    prefix: Annotated[str | None, typer.Option(help="Or your own files: how their names start.")] = None,
    source: Annotated[str | None, typer.Option(help="Language to start from (default: the task's).")] = None,
    target: Annotated[str | None, typer.Option(help="Language to arrive at (default: the task's).")] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Makes a run of somebody else's checkpoint, which eval, predict, export and compress take like one of ours."""
    from phmrun.importing.run import import_checkpoint

    given = {"name": data, "prefix": prefix, "source": source, "target": target}
    imported = import_checkpoint(
        directory, task, runs_dir=runs_dir, data={key: value for key, value in given.items() if value is not None}
    )
    if as_json:
        facts = {"run_id": imported.run.id, "run_dir": imported.run.path}
        console.print_json({**facts, "model_type": imported.kind, "parameters": imported.parameters})
        return
    text = f"run {imported.run.id} · {imported.kind} · {imported.parameters:,} parameters · {imported.run.path}"
    console.stdout().print(text, markup=False, soft_wrap=True)
