"""What a figure depends on besides the code: the machine, how busy it is, its caches and its memory."""

import ctypes
import logging
import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from phmrun.bench.timing import counts_cpu_time
from phmrun.ledger.environment import processor

LOG = logging.getLogger("phmrun.bench")

BUSY = 0.5  # load average (runnable processes in the last minute) from which on other work disturbs the figures
USUAL_CACHE = 32 * 2**20  # bytes of the last-level cache where the system does not tell
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def facts() -> dict[str, Any]:
    """What the figures were measured with, all of it JSON."""
    return {
        "processor": processor(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "blas": "MKL" if torch.backends.mkl.is_available() else "other",
        "threads": torch.get_num_threads(),
        "clock": "CPU time" if counts_cpu_time() else "wall",
        "last_level_cache_bytes": last_level_cache(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load_average": load_average(),
    }


def load_average() -> float | None:
    """Runnable processes in the last minute; ``None`` where the system does not tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def warn_if_busy() -> None:
    """Says so where other work is going on and the clock on the wall counts: figures are not the program's alone."""
    load = load_average()
    if load is not None and load > BUSY and not counts_cpu_time():
        LOG.warning("the load average is %.1f: other work on this machine disturbs the figures", load)


def last_level_cache(caches: Path = _CACHES) -> int:
    """Bytes of the largest cache that a processor core uses."""
    sizes = [USUAL_CACHE]
    for path in sorted(caches.glob("index*/size")):
        text = path.read_text(encoding="ascii").strip()
        if found := re.fullmatch(r"(\d+)([KMG]?)", text):
            sizes.append(int(found.group(1)) * _UNITS.get(found.group(2), 1))
    return max(sizes)


def waiter(device: torch.device | str) -> Callable[[], object] | None:
    """What waits for a device's unfinished work; ``None`` where there is none."""
    return torch.cuda.synchronize if torch.device(device).type == "cuda" else None


@contextmanager
def peak_memory(device: torch.device | str) -> Iterator[Callable[[], int]]:
    """Yields a function that says, at the end, the most memory in use in between, in bytes.

    On a GPU that is what torch held there; otherwise what the whole process held, after memory that the allocator keeps
    for later use is returned. If the system cannot forget earlier peaks (any but Linux), it is the most since the
    process began.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield lambda: torch.cuda.max_memory_allocated(device)
        return
    release_unused()
    with suppress(OSError):
        _CLEAR.write_text("5", encoding="ascii")
    yield _most_resident


def release_unused() -> None:
    """Return memory that glibc keeps for later use, which training makes it do, to the system."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def memory_in_use(device: torch.device | str) -> int:
    """Bytes in use now, counted as :func:`peak_memory` counts them."""
    if torch.device(device).type == "cuda":
        return torch.cuda.memory_allocated(device)
    release_unused()
    return _of_status("VmRSS") or _most_resident()


def _most_resident() -> int:
    """The process's peak resident memory in bytes."""
    if (found := _of_status("VmHWM")) is not None:
        return found
    import resource  # not on every system

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if platform.system() == "Darwin" else most * 2**10


def _of_status(field: str) -> int | None:
    """Bytes that the system tells of this process; ``None`` where it does not."""
    try:
        found = re.search(rf"{field}:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found.group(1)) * 2**10 if found else None
