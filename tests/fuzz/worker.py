"""Trials of one reader, in a separate process."""

import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

from phmrun.errors import ExitCode, PhmrunError
from tests.fuzz.mutation import Mutator
from tests.fuzz.reader import Read, Reader
from tests.fuzz.readers import READERS

PATIENCE = 10
"""Seconds of CPU time for one input, and a twelfth of those that it may take by the clock."""
MOST_MEMORY = 8 << 30
"""Bytes of addresses of the process, torch and all."""
MOST_FAILURES = 20
"""Failures after which a reader is given up."""


class Tally:
    """Counts and failures of one reader's trials."""

    def __init__(self) -> None:
        self.tried = self.failed = self.refused = 0
        self.slowest = self.seconds = 0.0
        self.memory = 0
        self.faults: dict[str, str] = {}

    def row(self, reader: Reader) -> str:
        """Row of the table."""
        return (
            f"{reader.name:<22} {reader.kind:<6} {self.tried:>8,} {self.refused:>8,} {self.failed:>6,} "
            f"{self.tried / max(self.seconds, 1e-9):>9,.0f} {1000 * self.slowest:>9.1f} {self.memory / 1024:>9.1f}"
        )


def work(
    name: str, first: int, tries: int | None, seconds: float | None, seed: int, folder: str, pipe: Connection, out: Path
) -> None:
    """Tries from number ``first`` on; reports every few hundred."""
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  (readers say on it what they leave out)
    reader, place = READERS[name], Path(folder)
    work = place / "work"
    work.mkdir(exist_ok=True)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    read = reader.prepare(work)
    mutator = Mutator(reader.seeds(), reader.tokens, structured=reader.structured)
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGPROF, _too_long)
    if not read_seeds(read, mutator.seeds):
        raise SystemExit(f"{name}: the good inputs are refused")
    tally, before, ends = Tally(), _peak(), time.monotonic() + (seconds or 1e12)
    number = first
    while (tries is None or number < tries) and time.monotonic() < ends and tally.failed < MOST_FAILURES:
        content = mutator.damaged(random.Random(f"{seed}:{name}:{number}"))
        (place / "input").write_bytes(content)
        (place / "number").write_text(str(number))
        if not tried(read, content, tally, number):
            keep(place / "input", out, reader, number)
        number += 1
        if number % 200 == 0:
            tally.memory = _peak() - before
            pipe.send((number, tally))
    tally.memory = _peak() - before
    pipe.send((number, tally))


def read_seeds(read: Read, seeds: Sequence[bytes]) -> int:
    """Number of good inputs (of the first 50) that are read; this also imports lazy modules."""
    refused = 0
    for seed in seeds[:50]:
        try:
            read(seed)
        except PhmrunError:
            refused += 1
    return min(len(seeds), 50) - refused


def tried(read: Read, content: bytes, tally: Tally, number: int) -> bool:
    """True if an input is read, or refused with the right error."""
    tally.tried += 1
    fault = ""
    began = time.process_time()
    signal.alarm(12 * PATIENCE)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        read(content)
    except PhmrunError as error:
        tally.refused += 1
        if error.code not in (ExitCode.USAGE, ExitCode.DATA) or len(str(error)) > 20_000 + 10 * len(content):
            fault = f"exit {error.code}, {len(str(error)):,} characters: {str(error)[:200]!r}"
    except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever a reader raises is what is looked for)
        fault = _placed(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        took = time.process_time() - began
        tally.slowest, tally.seconds = max(tally.slowest, took), tally.seconds + took
    if fault:
        tally.failed += 1
        tally.faults.setdefault(fault, str(number))
    return not fault


def _placed(error: BaseException) -> str:
    """Description of an exception with its last place in phmrun's code."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "phmrun" in frame.filename or "/tasks/" in frame.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    return f"{type(error).__name__}: {str(error)[:120]!r} at {place}"


def _too_long(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {PATIENCE} s")


def keep(path: Path, out: Path, reader: Reader, number: int) -> None:
    if not path.is_file():
        return  # it died before the first input
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{reader.name}-{number}").write_bytes(path.read_bytes())


def _peak() -> int:
    """KiB of memory that the process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
