"""``phmrun import``: import an external checkpoint as a run."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory


def import_model(
    directory: Annotated[Path, typer.Argument(metavar="DIR")],
    task: str = "nmt",
    data: str | None = None,
    prefix: str | None = None,
    source: str | None = None,
    target: str | None = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Import an external checkpoint as a run.

    Eval, predict, export and compress work on it.

    Args:
        directory: Hugging Face checkpoint of T5, mT5 or Marian, as safetensors.
        task: Sequence-to-sequence task: nmt, style.
        data: Dataset to score the run on (default: none).
        prefix: Common prefix of your own parallel files, instead of --data.
        source: Source language: en.
        target: Target language: de.

    Examples:
        phmrun import opus-mt-en-de --task nmt --data multi30k --source en --target de
        phmrun import flan-t5-small
    """
    from phmrun.exchange.imported_run import import_checkpoint

    options = {"name": data, "prefix": prefix, "source": source, "target": target}
    settings = {key: value for key, value in options.items() if value is not None}
    imported = import_checkpoint(directory, task, runs_dir=runs_dir, data=settings)
    if as_json:
        facts = {"run_id": imported.run.id, "run_dir": imported.run.path}
        facts |= {"model_type": imported.kind, "parameters": imported.parameters}
        console.print_json(facts)
        return
    run = imported.run
    console.print_line(f"run {run.id} · {imported.kind} · {imported.parameters:,} parameters · {run.path}")
