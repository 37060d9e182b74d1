"""``python tests/kills/disks.py --sizes 20``: trainings on disks that are too small, and then grow; needs root.

Each training ends with exit code 3 or 4 and an error that names path and free space, keeps what it has, and goes on to
the same result once there is room.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", WANDB_MODE="disabled")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    import forks
    import torch
    from forks import ended
    from trials import Case, Site, differences, facts

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    inputs = parser.parse_args(arguments)
    torch.set_num_threads(1)
    forks.load()
    folder = Path(tempfile.mkdtemp(prefix="disks-"))
    os.environ["PHMRUN_CACHE"] = str(folder / "cache")
    site = Site(folder / "site", Case("sva", 1, "32"))
    expected, _ = site.straight
    needed = sum(path.stat().st_size for path in site.run("straight").path.rglob("*") if path.is_file())
    draw = random.Random(inputs.seed)
    wrong = 0
    disk = site.folder / "disk"
    disk.mkdir()
    for _ in range(inputs.sizes):
        size = int(draw.uniform(0.02, 1.15) * needed) // 4096 * 4096
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], check=True)
        try:
            code = ended(site.start("one", "disk"))
            first = site.said()
            kept = sorted(path.name for path in disk.glob("*/checkpoints/*.ckpt"))
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            then = ended(site.start("one", "disk"))
            unlike = differences(expected, facts(site.run("disk"))) if then == 0 else [site.said()[-1500:]]
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        output = code == 0 or (code in (3, 4) and "disk is full" in first)
        clean = not any(word in first for word in ("Traceback", "Logging error", "a bug"))
        good = output and clean and not unlike
        wrong += not good
        print(json.dumps({"size": size, "code": code, "kept": kept, "then": then, "unlike": unlike, "good": good}))
        print("    ", "\n     ".join(first.strip().splitlines()[-3:]) if code else "", flush=True)
    print(f"{inputs.sizes} sizes from 2 % to 115 % of {needed:,} bytes, {wrong} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(run())
