"""Training speed of a small translator beside busy processes, by its number of threads.

Each measurement starts ``phmrun train nmt --config configs/nmt/demo.yaml``, reads the tokens per second that it logs
every second, and kills it. Busy processes run an endless loop. Medians over the seconds of all rounds. Run from a
checkout::

    python -m benchmarks.threads --busy 0 --busy 1 --seconds 10 --rounds 2
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from phmrun.cores import usable_cores
from phmrun.ledger.environment import processor

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "configs" / "nmt" / "demo.yaml"
PACE = re.compile(r"([\d,]+) tokens/s")
FEWER = re.compile(r"computing with (\d+) thread")


@contextmanager
def busy(number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep ``number`` other processes busy inside the block, and yield them."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def paces(threads: int, policy: str, seconds: int, runs_dir: str) -> tuple[int, list[int]]:
    """Train for some seconds; return the number of threads and the tokens per second of each.

    Args:
        threads: Value of ``--threads``; 0: phmrun's choice.
        policy: Value of ``OMP_WAIT_POLICY``, or "" for none.
        seconds: Logged seconds that are read; the first is left out, since it includes preparations.
        runs_dir: Folder of the run.

    Raises:
        RuntimeError: The training ended before it logged that many seconds.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    environment |= {"WANDB_MODE": "disabled"} | ({"OMP_WAIT_POLICY": policy} if policy else {})
    options = ["--threads", str(threads), "--set", "logging.every=1", "--max-steps", "100000", "--runs-dir", runs_dir]
    command = [sys.executable, "-m", "phmrun", "train", "nmt", "--config", str(CONFIG), *options]
    chosen, speeds, lines = threads or usable_cores(), [], []
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            lines.append(line)
            if fewer := FEWER.search(line):
                chosen = int(fewer[1])
            if pace := PACE.search(line):
                speeds.append(int(pace[1].replace(",", "")))
            if len(speeds) > seconds:
                process.kill()
    if len(speeds) <= seconds:
        raise RuntimeError("".join(lines[-10:]))
    return chosen, speeds[1:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each number of busy processes and each choice of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, action="append", help="other busy processes (default: 0, 1, 2, 4)")
    parser.add_argument("--seconds", type=int, default=10, help="logged seconds of each measurement")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each, by turns")
    args = parser.parse_args(arguments)
    cores = usable_cores()
    choices = {"automatic": (0, ""), "1": (1, ""), f"{cores}": (cores, ""), f"{cores}, passive": (cores, "PASSIVE")}
    print(f"{processor()}, {cores} usable cores, tokens per second of wall time, load {os.getloadavg()[0]:.1f}")
    for number in args.busy or (0, 1, 2, 4):
        speeds: dict[str, list[int]] = {name: [] for name in choices}
        used: dict[str, set[int]] = {name: set() for name in choices}
        with busy(number), tempfile.TemporaryDirectory() as folder:
            for turn in range(args.rounds):
                for name, choice in choices.items():
                    threads, values = paces(*choice, args.seconds, f"{folder}/{turn}-{name}")
                    speeds[name] += values
                    used[name].add(threads)
        for name, values in speeds.items():
            threads = " or ".join(map(str, sorted(used[name])))
            print(f"{number} busy, threads {name:12} ({threads} used) {statistics.median(values):8,.0f}", flush=True)


if __name__ == "__main__":
    main()
