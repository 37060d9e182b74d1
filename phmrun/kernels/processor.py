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
    text = CPU_INFO.read_text(encoding="utf-8") if CPU_INFO.is_file() else ""
    vendor = re.search(r"vendor_id\s*:\s*(\S+)", text)
    return "AMD" in (vendor[1] if vendor else platform.processor())


def has_avx512() -> bool:
    """Return True if torch uses AVX-512.

    Without it, torch's switch to oneDNN has no effect.
    """
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def has_bf16() -> bool:
    """Return True if oneDNN says that the processor computes in bfloat16.

    False without oneDNN.
    """
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) if torch.backends.mkldnn.is_available() else False
