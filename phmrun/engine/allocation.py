"""What becomes of memory that tensors have left: the process keeps it, rather than fetching it anew from the system."""

import ctypes
import functools

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
_MOST = 2**31 - 1


@functools.cache
def keep_freed_memory() -> bool:
    """Lets the C library keep what is freed, for the rest of the process; says whether it could.

    glibc gives large blocks back to the system when they are freed, and the system clears every page of the next one:
    up to 40 % of the CPU time of a training step whose tensors have tens of megabytes. The process's peak stays what
    it was. Other C libraries are left as they are.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    return bool(set_option(_MMAP_MAX, 0)) and bool(set_option(_TRIM_THRESHOLD, _MOST))
