"""``phmrun sync``: a run's record in Weights & Biases, made whole from the run directory."""

import os
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.cli.runs import RunArguments


def sync(
    runs: RunArguments,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="NAME",
            help="wandb (default), tensorboard, mlflow, trackio; may be repeated. All but wandb stay in the run.",
        ),
    ] = None,
    online: Annotated[
        bool | None,
        typer.Option(
            "--online/--offline",
            help="Upload, or write one complete W&B directory to upload later (default: WANDB_MODE, else online).",
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="Weights & Biases project (default: the one it was trained with).")
    ] = None,
    entity: Annotated[
        str | None, typer.Option(help="Weights & Biases user or team (default: the account's own).")
    ] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Replays the history of runs, each as one W&B run of the same name.

    What training mirrors offline comes in one segment per process, and segments of one run overwrite each other when
    they are uploaded one by one. This writes or uploads the whole run from its directory instead, and deletes nothing.
    """
    from phmrun.ledger import Run
    from phmrun.ledger.mirrors import write_mirror
    from phmrun.ledger.wandb_mirror import sync as replay
    from phmrun.ledger.wandb_mirror import wandb_mode

    others = [name for name in to or () if name != "wandb"]
    for reference in runs if others else ():
        run = Run.find(runs_dir, reference)
        for name in others:
            folder = write_mirror(run, name)
            if as_json:
                console.print_json({"run_id": run.id, "to": name, "dir": folder})
            else:
                console.stdout().print(f"{run.id}: {folder}", markup=False, soft_wrap=True)
    if to and "wandb" not in to:
        return
    asked = None if online is None else "online" if online else "offline"
    mode = wandb_mode(asked or os.environ.get("WANDB_MODE") or "online")
    # All are found before the first is uploaded: a typo in the last leaves nothing half done.
    for run in [Run.find(runs_dir, reference) for reference in runs]:
        synced = replay(run, mode, project=project, entity=entity)
        if as_json:
            facts = {"run_id": synced.run_id, "mode": synced.mode, "rows": synced.rows}
            console.print_json({**facts, "wandb_dir": synced.directory, "url": synced.url})
            continue
        where = synced.url or synced.directory
        console.stdout().print(f"{synced.run_id}: {synced.rows:,} rows in {where}", markup=False, soft_wrap=True)
        if synced.mode == "offline":
            console.stderr().print(f"upload it with: wandb sync {synced.directory}", markup=False, soft_wrap=True)
