"""Damage to files."""

import os
from pathlib import Path


def flip(path: Path, place: int) -> None:
    """Flip a bit of the byte at a place, or of the last byte of a shorter file; the file is newer afterwards."""
    content = bytearray(path.read_bytes())
    content[min(place, len(content) - 1)] ^= 1
    before = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(before, before + 1))
