"""Facts about the processor that decide which library computes matrix products."""

import platform
import re
from pathlib import Path

import torch

CPU_INFO = Path("/proc/cpuinfo")


def amd_family() -> int:
    """Return the family of a processor by AMD: 25 for Zen 3 and 4, 26 for Zen 5; 0 on other processors.

    Reads ``/proc/cpuinfo``, or Python's ``platform`` if that is missing.
    """
    text = CPU_INFO.read_text(encoding="utf-8") if CPU_INFO.is_file() else platform.processor()
    family = re.search(r"family\s*:?\s*(\d+)", text, re.IGNORECASE)
    return int(family[1]) if family and "AuthenticAMD" in text else 0


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
