"""Feeds damaged input to every reader: ``python -m tests.fuzz [--reader NAME] [--tries N | --seconds S]``.

A reader passes where it reads, or raises ``PhmrunError`` with exit code 2 or 3. Anything else, more than ten seconds
of CPU time for one input, or the death of the process is a failure; the input is kept, and its number makes it again.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.readers import READERS, Reader
from tests.fuzz.worker import MOST_FAILURES, Tally, keep, work

HEAD = (
    f"{'reader':<22} {'kind':<6} {'tried':>8} {'refused':>8} {'failed':>6} "
    f"{'per CPU s':>9} {'worst ms':>9} {'worst MB':>9}"
)


def main() -> int:
    """Runs the readers that are asked for, and prints a table; 1 where one failed."""
    asked = _arguments()
    out = Path(asked.out)
    multiprocessing.set_forkserver_preload(["tests.fuzz.worker"])
    print(HEAD, flush=True)
    failed = 0
    for name in asked.reader or READERS:
        reader = READERS[name]
        tally = _fuzz(reader, asked.tries, asked.seconds, asked.seed, out)
        print(tally.row(reader), flush=True)
        for fault, number in tally.faults.items():
            print(f"    {fault}   (input {number})", flush=True)
        failed += tally.failed
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--reader", action="append", choices=READERS, help="only this one; may be repeated")
    parser.add_argument("--tries", type=int, help="damaged inputs for each reader")
    parser.add_argument("--seconds", type=float, help="or: seconds for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="fuzz-failures", help="where the inputs of failures are kept")
    asked = parser.parse_args()
    if asked.tries is None and asked.seconds is None:
        asked.seconds = 30 / len(READERS)
    return asked


def _fuzz(reader: Reader, tries: int | None, seconds: float | None, seed: int, out: Path) -> Tally:
    """All tries of one reader, in processes of their own: a new one where the last one died."""
    total = Tally()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        first, began = 0, time.monotonic()
        while total.failed < MOST_FAILURES:
            left = None if seconds is None else seconds - (time.monotonic() - began)
            if (tries is not None and first >= tries) or (left is not None and left <= 0 and first):
                break
            context = multiprocessing.get_context("forkserver")
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(reader.name, first, tries, left, seed, folder, theirs, out))
            process.start()
            theirs.close()
            part, last = Tally(), first
            try:
                while True:
                    last, part = ours.recv()
            except EOFError:
                process.join()
            _add(total, part)
            first = last
            if process.exitcode:
                total.failed += 1
                total.tried += 1
                number = _number(Path(folder), first)
                total.faults.setdefault(f"the process died: {process.exitcode}", str(number))
                keep(Path(folder) / "input", out, reader, number)
                first = number + 1
            else:
                break
    return total


def _number(folder: Path, first: int) -> int:
    try:
        return int((folder / "number").read_text())
    except (OSError, ValueError):
        return first


def _add(total: Tally, part: Tally) -> None:
    total.tried += part.tried
    total.failed += part.failed
    total.refused += part.refused
    total.seconds += part.seconds
    total.slowest = max(total.slowest, part.slowest)
    total.memory = max(total.memory, part.memory)
    for fault, number in part.faults.items():
        total.faults.setdefault(fault, number)


if __name__ == "__main__":
    sys.exit(main())
