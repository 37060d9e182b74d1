"""Facts about the processor that decide which library computes matrix products."""

import platform
import re
from pathlib import Path

import torch

CPU_INFO = Path("/proc/cpuinfo")


def is_amd() -> bool:
    """Return True on a processor by AMD, on which MKL is slow.

    Reads ``/proc/cpuinfo``, or Python's ``platform`` if that is missing or names no vendor.
    """
    try:
        vendor = re.search(r"vendor_id\s*:\s*(\S+)", CPU_INFO.read_text(encoding="utf-8"))
    except OSError:
        vendor = None
    return "AMD" in (vendor[1] if vendor else platform.processor())


def has_avx512() -> bool:
    """Return True if torch uses AVX-512.

    Without it, torch's switch to oneDNN has no effect.
    """
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def has_amx() -> bool:
    """Return True if the processor has AMX units for bfloat16 matrices.

    False if ``/proc/cpuinfo`` cannot be read.
    """
    try:
        return "amx_bf16" in CPU_INFO.read_text(encoding="utf-8")
    except OSError:
        return False


def has_bf16() -> bool:
    """Return True if oneDNN says that the processor computes in bfloat16.

    False without oneDNN.
    """
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) if torch.backends.mkldnn.is_available() else False
