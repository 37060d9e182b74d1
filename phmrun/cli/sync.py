"""``phmrun sync``: complete record of a run in Weights & Biases or TensorBoard."""

import os
from pathlib import Path
from typing import Any, Literal

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.cli.runs import RunArguments


def sync(
    runs: RunArguments,
    to: Literal["wandb", "tensorboard"] = "wandb",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Upload runs to Weights & Biases, or write them for TensorBoard.

    Each run becomes one W&B run of the same name, from the run directory. Offline mirrors of training have a segment
    for each process instead, and these overwrite each other when they are uploaded. Nothing is deleted.
    WANDB_MODE=offline writes a complete W&B directory to upload later.

    Args:
        to: Program; tensorboard: a folder in the run directory, which TensorBoard reads.
    """
    from phmrun.ledger import Run
    from phmrun.ledger.tensorboard_mirror import write_tensorboard
    from phmrun.ledger.wandb_mirror import sync as replay
    from phmrun.ledger.wandb_mirror import wandb_mode

    chosen = [Run.find(runs_dir, reference) for reference in runs]  # all, so that a typo in the last uploads nothing
    mode = wandb_mode() if os.environ.get("WANDB_MODE") and to == "wandb" else "online"
    facts: list[dict[str, Any]] = []
    for run in chosen:
        if to == "tensorboard":
            facts.append({"run_id": run.id, "dir": write_tensorboard(run)})
            line = f"{run.id}: {facts[-1]['dir']}"
        else:
            facts.append({"run_id": run.id, "mode": mode, **(synced := replay(run, mode))})
            upload = f"; upload them with: wandb sync {synced['wandb_dir']}"
            line = f"{run.id}: {synced['rows']:,} rows" + (upload if mode == "offline" else f" in {synced['url']}")
        if not as_json:
            console.print_line(line)
    if as_json:
        console.print_json({"runs": facts})
