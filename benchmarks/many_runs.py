"""CPU time and memory of ``runs list`` and ``table`` over thousands of runs with counts of test items.

The runs are those of a folder of small results, each with many seeds: ids, manifests and items are as ``results
restore`` writes them. Each command runs in a process of its own.

``python -m benchmarks.many_runs [--results results/inference-phm …] [--runs 3000] [--dir DIR]``
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from phmrun.config import load_run_config, run_id
from phmrun.config.identity import canonical_identity
from phmrun.ledger.record import restore, write_record

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (["runs", "list"], ["table"], ["table", "--no-significance"])


def with_items(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the records of folders that hold counts of test items."""
    records = [json.loads(path.read_bytes()) for folder in folders for path in sorted(folder.glob("*.json"))]
    return [record for record in records if record.get("items")]


def copies(records: Sequence[dict[str, Any]], count: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield ``count`` records: those of ``records`` in turn, each time with further seeds."""
    from phmrun.config.options import options_of

    for number in range(count):
        record = deepcopy(records[number % len(records)])
        record["config"]["seed"] += 1000 * (number // len(records))
        record["status"]["about"]["seed"] = record["config"]["seed"]
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(record["config"], sort_keys=False), encoding="utf-8")
        config, marks = load_run_config(path, options_of=options_of), record["data"]["fingerprints"]
        record |= {"run": run_id(config, fingerprints=marks), "identity": canonical_identity(config, marks), "code": {}}
        yield record


def build(folders: Sequence[Path], count: int, runs_dir: Path) -> None:
    """Write ``count`` run directories below ``runs_dir``. Imports torch."""
    with tempfile.TemporaryDirectory() as place:
        for record in copies(with_items(folders), count, Path(place)):
            path = write_record(record, Path(place))
            restore([path], runs_dir)
            path.unlink()


def measure(arguments: Sequence[str]) -> tuple[float, float]:
    """Return CPU seconds and greatest memory in MB of a command of phmrun.

    Raises:
        CalledProcessError: The command failed.
    """
    process = subprocess.Popen([sys.executable, "-m", "phmrun", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), list(arguments))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Build the runs and print a table of commands, seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", nargs="+", type=Path, default=[ROOT / "results" / "inference-phm"])
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--dir", type=Path, help="keep the runs here, and use those that are there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runs_dir = options.dir or Path(place) / "runs"
        if not runs_dir.is_dir():  # in a process of its own, since a command inherits the greatest memory of this one
            process = multiprocessing.get_context("spawn").Process(
                target=build, args=(options.results, options.runs, runs_dir)
            )
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(process.exitcode)
        for command in COMMANDS:
            seconds, memory = measure([*command, "--runs-dir", str(runs_dir)])
            print(f"{' '.join(command):30} {seconds:6.1f} CPU s {memory:6.0f} MB", flush=True)


if __name__ == "__main__":
    main()
