"""Machine of a measurement: processor, load, caches, memory."""

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
from phmrun.kernels.switch import ONEDNN, switched
from phmrun.ledger.environment import processor
from phmrun.ledger.segment import peak_resident

LOG = logging.getLogger("phmrun.bench")

BUSY = 0.5  # load average (runnable processes in the last minute) above which other work disturbs the figures
USUAL_CACHE = 32 * 2**20  # bytes of the last-level cache if the system does not report it
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def facts(device: str = "cpu") -> dict[str, Any]:
    """Return the facts of the machine that figures on a device depend on, for JSON.

    Keys: "device", "processor", "instruction_set", "blas" (library of float32 products: "oneDNN", "MKL" or "other"),
    "threads", "clock" ("CPU time" with one thread on the CPU, else "wall"), "last_level_cache_bytes", "gpu" (None
    without one), "torch" and "python" (versions), "load_average".
    """
    blas = "MKL" if torch.backends.mkl.is_available() else "other"
    return {
        "device": device,
        "processor": processor(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "blas": "oneDNN" if switched() == ONEDNN else blas,
        "threads": torch.get_num_threads(),
        "clock": "CPU time" if counts_cpu_time(device) else "wall",
        "last_level_cache_bytes": last_level_cache(),
        "gpu": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load_average": load_average(),
    }


def load_average() -> float:
    """Return the mean number of runnable processes in the last minute; 0 if the system does not report it."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def warn_if_busy(device: str) -> None:
    """Log a warning if the load average exceeds ``BUSY``.

    Silent if CPU time is measured.
    """
    if (load := load_average()) > BUSY and not counts_cpu_time(device):
        LOG.warning("the load average is %.1f: other work on this machine disturbs the figures", load)


def last_level_cache() -> int:
    """Return the bytes of the largest cache of a processor core.

    At least ``USUAL_CACHE``, also if the system reports no cache.
    """
    sizes = (path.read_text(encoding="ascii").strip() for path in _CACHES.glob("index*/size"))
    return max([USUAL_CACHE, *(int(size.removesuffix("K")) * 2**10 for size in sizes)])


@contextmanager
def peak_memory(device: torch.device | str) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the peak memory so far, in bytes.

    On a GPU: the peak of torch's allocated memory since the start. Otherwise: the peak of the process's resident memory
    since the start, where Linux lets it be reset; elsewhere since the process began. Unused memory is first returned to
    the system.
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
    """Give back unused memory of glibc's allocator to the system; without glibc, do nothing."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def memory_in_use() -> int:
    """Return the bytes of resident memory now, after unused memory is returned to the system.

    Without Linux's status, the peak so far.
    """
    release_unused()
    return _of_status("VmRSS") or _most_resident()


def _most_resident() -> int:
    """Return the process's peak resident memory in bytes.

    Read from Linux's status if it is there, else from ``getrusage``.
    """
    return _of_status("VmHWM") or peak_resident()


def _of_status(field: str) -> int | None:
    """Return a field of this process's Linux status, in bytes.

    None if the file or the field is missing.
    """
    try:
        match = re.search(rf"{field}:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"))
    except OSError:
        return None
    return int(match.group(1)) * 2**10 if match else None
