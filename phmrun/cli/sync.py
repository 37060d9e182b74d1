"""``phmrun sync``: complete record of a run in Weights & Biases."""

import os
from pathlib import Path

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.cli.runs import RunArguments


def sync(
    runs: RunArguments,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Upload runs to Weights & Biases.

    Each run becomes one W&B run of the same name, from the run directory. Offline mirrors of training have a segment
    for each process instead, and these overwrite each other when they are uploaded. Nothing is deleted.
    WANDB_MODE=offline writes a complete W&B directory to upload later.
    """
    from phmrun.ledger import Run
    from phmrun.ledger.wandb_mirror import sync as replay
    from phmrun.ledger.wandb_mirror import wandb_mode

    mode = wandb_mode(os.environ.get("WANDB_MODE") or "online")
    # All runs are looked up before the first upload, so that a typo in the last uploads nothing.
    for run in [Run.find(runs_dir, reference) for reference in runs]:
        synced = replay(run, mode)
        if as_json:
            facts = {"run_id": synced.run_id, "mode": synced.mode, "rows": synced.rows}
            console.print_json({**facts, "wandb_dir": synced.directory, "url": synced.url})
            continue
        where = synced.url or synced.directory
        console.print_line(f"{synced.run_id}: {synced.rows:,} rows in {where}")
        if synced.mode == "offline":
            console.print_aside(f"upload it with: wandb sync {synced.directory}")
