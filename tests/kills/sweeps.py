"""``python tests/kills/sweeps.py --kills 30``: a sweep of twelve cells whose planner and workers are killed, and go on.

Two tasks, two layers and three seeds, two runs at a time. At random moments the planner dies by SIGKILL, or a run, or
all at once; then the same command is given again, while runs of the former planner may still be at work. In the end
every cell is what it is in a sweep that nobody touched, bit for bit.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", WANDB_MODE="disabled")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

TASKS, CELLS = ("nmt", "sva"), 12
VICTIMS = ("planner", "worker", "all")
QUIET = 1 / 8
"""What passes at most between two kills, as a part of the time of the sweep that nobody touches."""
MOST_WRONG = 3
"""Answers that a sweep may give wrongly before it is given up."""


def write_sweep(folder: Path, steps: int = 16) -> None:
    """The sweep's file and its corpora."""
    from tiny_experiments import SETTINGS
    from trials import COURSE

    here = Path.cwd()
    os.chdir(folder)
    try:
        tasks = {task: SETTINGS[task](Path("corpus") / task) for task in TASKS}
    finally:
        os.chdir(here)
    course = {**COURSE, "max_steps": steps, "optimizer": {"lr": 0.003}, "schedule": {"warmup": 4}}
    base = {"training": course, "hardware": {"accelerator": "cpu"}, "logging": {"wandb": "disabled"}}
    grid = {"layer": ["dense", {"structure": "phm", "n": 2}]}
    sweep = {"title": "Killed", "tasks": tasks, "base": base, "grid": grid, "seeds": 3}
    (folder / "sweep.yaml").write_text(json.dumps(sweep), encoding="utf-8")


def start(folder: Path, runs: str) -> int:
    """Starts a planner; its process id."""
    from forks import forked

    os.environ["PHMRUN_CACHE"] = str(folder / f"cache-{runs}")
    command = ["sweep", "sweep.yaml", "--jobs", "2", "--threads", "1", "--runs-dir", runs]
    return forked(command, folder, folder / "output.txt", others=CELLS + 4)


def results(folder: Path, runs: str) -> dict[str, Any]:
    """Result of every cell."""
    from trials import facts

    from phmrun.ledger import Run

    return {path.name: facts(Run(path)) for path in sorted((folder / runs).iterdir()) if path.name[0] not in "._"}


def workers(planner: int, runs: Path) -> list[int]:
    """The runs at work, as leaders of their groups: of this planner, and of former ones, which their locks name."""
    actual = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(parent) == planner and group == stat.parent.name and state not in "ZX":
                actual.add(int(group))
    for lock in runs.glob("*/lock"):
        with suppress(OSError, ValueError, KeyError):
            actual.add(int(json.loads(lock.read_bytes())["pid"]))
    return sorted(actual - {planner})


def kill(planner: int, runs: Path, victim: str, draw: random.Random, killed: Counter[str]) -> int | None:
    """Kills what is named, and counts it if it was there; the planner's exit code if it is gone."""
    actual, status = os.waitpid(planner, os.WNOHANG)
    if actual:
        return os.waitstatus_to_exitcode(status)
    at_work = workers(planner, runs)
    if victim == "worker":
        at_work = [draw.choice(at_work)] if at_work else []
    for pid in at_work * (victim != "planner"):
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    killed[victim] += bool(at_work) or victim != "worker"
    if victim == "worker":
        return None
    os.kill(planner, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(planner, 0)[1])


def attempt(folder: Path, seconds: float, kills: int, draw: random.Random) -> tuple[Counter[str], list[str]]:
    """Runs a sweep and kills up to so many times; who was killed, and what a planner that lived said wrongly.

    Args:
        folder: Where the sweep's file is.
        seconds: What it takes undisturbed.
        kills: How many times at most; fewer where it is done before.
        draw: Says when, and whom.
    """
    from forks import ended

    killed: Counter[str] = Counter()
    wrong: list[str] = []
    for name in ("killed", "cache-killed"):
        shutil.rmtree(folder / name, ignore_errors=True)
    code: int | None = -1
    while code:
        planner, code = start(folder, "killed"), None
        while code is None and killed.total() < kills:
            time.sleep(draw.uniform(0.0, QUIET * seconds))
            code = kill(planner, folder / "killed", draw.choice(VICTIMS), draw, killed)
        if code is None:
            code = ended(planner, sweeping=False)
        messages = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
        if any(word in messages for word in ("Traceback", "a bug")) or code not in (-signal.SIGKILL, 0, 5):
            wrong.append(f"exit code {code}: {messages[-1500:]}")
        if len(wrong) > MOST_WRONG:
            break
    return killed, wrong


def run(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    import forks
    import torch
    from trials import differences

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder unless given")
    inputs = parser.parse_args(arguments)
    torch.set_num_threads(1)
    forks.load()
    folder, draw = inputs.folder or Path(tempfile.mkdtemp(prefix="sweeps-")), random.Random(inputs.seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_sweep(folder)
    began = time.monotonic()
    code = forks.ended(start(folder, "straight"))
    seconds = time.monotonic() - began
    expected = results(folder, "straight")
    print(f"undisturbed: exit code {code}, {len(expected)} cells, {seconds:.0f} s", flush=True)
    if code or len(expected) != CELLS:
        print((folder / "output.txt").read_text(encoding="utf-8"))
        return 1
    total: Counter[str] = Counter()
    failed = sweeps = 0
    while total.total() < inputs.kills:
        killed, wrong = attempt(folder, seconds, inputs.kills - total.total(), draw)
        wrong += differences(expected, results(folder, "killed"))
        total, sweeps, failed = total + killed, sweeps + 1, failed + bool(wrong)
        print(json.dumps({"killed": killed, "wrong": wrong[:5]}), flush=True)
    print(f"{sweeps} sweeps of {CELLS} cells, {total.total()} kills {dict(total)}, {failed} not bit-identical")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(run())
