"""Directories that are made once per content and kept in the cache.

Such a directory is built beside its place and renamed when it is complete: killed at any moment, a process leaves
nothing that could be taken for a result. Its name is a checksum of everything that the result depends on.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import filelock

from phmrun.progress import note


def content_name(content: Mapping[str, Any]) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def build_once(path: Path, last: str, build: Callable[[Path], None]) -> None:
    """Makes a directory unless it is there; a second process that wants the same waits for the first.

    Args:
        path: The directory.
        last: The file that ``build`` writes last; a directory without it is not complete.
        build: Fills the directory that it is given.
    """
    if (path / last).is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path.with_name(f"{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        note(f"another process prepares these data ({path.name}); waiting for it")
        lock.acquire()
    try:
        if (path / last).is_file():
            return
        building = path.with_name(f".{path.name}.tmp")
        for leftover in (building, path):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        building.mkdir()
        try:
            build(building)
            building.rename(path)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    finally:
        lock.release()
