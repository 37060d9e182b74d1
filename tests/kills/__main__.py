"""``python tests/kills --kills 100``: so many kills over all tasks, processes and precisions, and what came of them."""

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", WANDB_MODE="disabled")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))


def run() -> int:
    """The command."""
    import forks
    import torch
    from trials import SURVIVALS, Site, attempt, cases

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how many trainings to kill")
    parser.add_argument("--signals", action="store_true", help="interrupt them by SIGINT and SIGTERM instead")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", action="append", help="cases whose name holds this, nmt-2; may be repeated")
    parser.add_argument("--processes", type=int, action="append", help="of a training; may be repeated (default: 1, 2)")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder unless given")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    forks.load()
    draw = random.Random(arguments.seed)
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="kills-"))
    os.environ["PHMRUN_CACHE"] = str(folder / "cache")
    wanted = [
        case for case in cases(*(arguments.processes or (1, 2))) if any(map(str(case).count, arguments.only or [""]))
    ]
    sites: dict[str, Site] = {}
    done = moved = trials = 0
    failed = []
    while done < arguments.kills:
        order = draw.sample(wanted, len(wanted))
        for case in order:
            if done >= arguments.kills:
                break
            if str(case) not in sites:
                sites[str(case)] = Site(folder / str(case), case)
            trial = attempt(sites[str(case)], draw, signals=arguments.signals)
            trials += 1
            done += len(trial.kills)
            moved += trial.moved
            if trial.differences:
                failed.append(trial)
            print(
                json.dumps(
                    {
                        "case": str(case),
                        "kills": trial.kills,
                        "from": trial.steps,
                        "moved": trial.moved,
                        "differences": trial.differences[:5],
                    }
                ),
                flush=True,
            )
    print(f"{trials} trainings, {done} kills, {moved} moves to another folder, {len(failed)} not bit-identical")
    if SURVIVALS:
        print(f"{len(SURVIVALS)} of them of one process of two; the other ended within {max(SURVIVALS)} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(run())
