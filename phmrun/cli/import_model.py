"""``phmrun import``: import an external checkpoint as a run."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory

EPILOG = """Example:

phmrun import opus-mt-en-de --task nmt --data multi30k --source en --target de"""


def import_model(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Hugging Face checkpoint of T5 or Marian, as safetensors.")
    ],
    task: Annotated[str, typer.Option(help="Sequence-to-sequence task: nmt, style.")] = "nmt",
    data: Annotated[str | None, typer.Option(help="Dataset to score the run on (default: the task's).")] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Common prefix of your own parallel files, instead of --data.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Source language: en (default: the task's).")] = None,
    target: Annotated[str | None, typer.Option(help="Target language: de (default: the task's).")] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Import an external checkpoint as a run.

    Eval, predict, export and compress work on it.
    """
    from phmrun.importing.run import import_checkpoint

    data_settings = {"name": data, "prefix": prefix, "source": source, "target": target}
    imported = import_checkpoint(
        directory,
        task,
        runs_dir=runs_dir,
        data={key: value for key, value in data_settings.items() if value is not None},
    )
    if as_json:
        facts = {"run_id": imported.run.id, "run_dir": imported.run.path}
        console.print_json({**facts, "model_type": imported.kind, "parameters": imported.parameters})
        return
    text = f"run {imported.run.id} · {imported.kind} · {imported.parameters:,} parameters · {imported.run.path}"
    console.stdout().print(text, markup=False, soft_wrap=True)
