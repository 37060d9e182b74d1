"""Index of a directory of runs: what tables need of each run, cached in ``.index.json``.

Without it, a table of thousands of runs resolves every config and computes every checksum again. An entry is used only
if the run's files have the same names, sizes, inodes and times of change as when it was made, and phmrun, the packages
with plug-ins and the plug-in files are the same. Files changed within two seconds before are not entered, since file
systems have coarse clocks. Scores and states are not in the index: they are read and checked every time.

The index has a checksum of its own, and may be deleted at any time. Imports no torch.
"""

import hashlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from phmrun.files import read_regular, write_text
from phmrun.ledger.recorded_run import RecordedRun
from phmrun.registry import all_announcements, loaded_plugins
from phmrun.results.entries import SEED, Entry

INDEX = ".index.json"
_SETTLED = 2_000_000_000
"""Nanoseconds since the last change of a file after which its times identify its content."""


class RunIndex:
    """Cached entries of the runs of a directory.

    A missing, damaged or outdated index is an empty one; one that cannot be written is not written.
    """

    def __init__(self, runs_dir: Path) -> None:
        self.path = runs_dir / INDEX

    def entries(self, runs: Iterable[RecordedRun], make: Callable[[RecordedRun], Entry]) -> tuple[Entry, ...]:
        """Return the entry of each run, in order; update the index.

        An entry is from the index if the run's files are unchanged, else by ``make``. All runs are marked as checked:
        their files agree with their manifests. The index then has these runs only, without those changed just now. An
        index that cannot be written is left as it is.

        Raises:
            PhmrunError: (exit 3) A run that is not in the index differs from its manifest.
        """
        code = code_key()
        before = self._read(code)
        entries, kept, changed = [], {}, False
        for run in runs:
            stamp = _stamp_of(run.path)
            entry = _restored(before, run, stamp)
            if entry is None:
                run.require_unbroken()
                run.checked = True
                entry, changed = make(run), True
            entries.append(entry)
            if stamp and stamp == _stamp_of(run.path):
                kept[run.id] = (stamp, entry)
        if changed or kept.keys() != before.get("runs", {}).keys():
            with suppress(OSError):  # a read-only or full disk
                write_text(self.path, _text(code, kept))
        return tuple(entries)

    def _read(self, code: str) -> dict[str, Any]:
        """Return the content of the index.

        The result is empty if it is missing, damaged, or of other code.
        """
        with suppress(OSError, ValueError):
            digest, _, text = read_regular(self.path).partition(b"\n")
            content = json.loads(text) if digest == hashlib.sha256(text).hexdigest().encode() else None
            if isinstance(content, dict) and content["code"] == code:
                return content
        return {}


def _text(code: str, entries: Mapping[str, tuple[str, Entry]]) -> str:
    """Return the text of an index: its checksum, and JSON.

    In the JSON, equal parts occur once. ``entries`` are stamp and entry by run id.
    """
    parts: dict[str, int] = {}
    runs = {}
    for name, (stamp, entry) in entries.items():
        config = {key: value for key, value in entry.config.items() if key != SEED}
        texts = (json.dumps(part) for part in (config, dict(entry.settings), dict(entry.marks)))
        runs[name] = [
            stamp,
            entry.config.get(SEED),
            entry.dense,
            *(parts.setdefault(text, len(parts)) for text in texts),
        ]
    text = json.dumps({"code": code, "runs": runs, "parts": [json.loads(part) for part in parts]})
    return f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def _restored(content: Mapping[str, Any], run: RecordedRun, stamp: str) -> Entry | None:
    """Return a run's entry from the index, marked as checked.

    The result is ``None`` if the index has none with this stamp, or the stamp is empty.
    """
    former, seed, dense, *places = content.get("runs", {}).get(run.id, [None, None, None])
    if not stamp or former != stamp:
        return None
    run.checked = True
    config, settings, marks = (content["parts"][place] for place in places)
    return Entry({}, {**config, SEED: seed}, run, settings, marks, indexed_dense=dense)


def _stamp_of(folder: Path) -> str:
    """Return a checksum of the facts of a run's files.

    Facts are names, sizes, inodes and times of the files in its directory and in ``plugins``. Other directories
    (checkpoints, predictions, vocabularies) are left out, since tables do not read them. The result is empty if a file
    has changed within the last two seconds or has a time in the future, or if the directory cannot be read.
    """
    rows: list[tuple[str, int, int, int, int]] = []
    try:
        for place in (folder, folder / "plugins"):
            if place == folder or place.is_dir():
                rows += sorted(_files_of(place))
    except OSError:
        return ""
    newest = max((max(row[3:]) for row in rows), default=0)
    return hashlib.sha256(repr(rows).encode()).hexdigest() if newest < time.time_ns() - _SETTLED else ""


def _files_of(folder: Path) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield name, size, inode, and times (ns) of each file in a folder.

    The order is the file system's. The times are those of the last change of content and of facts. Directories are
    left out.
    """
    with os.scandir(folder) as items:
        for item in items:
            if item.is_file():
                facts = item.stat()
                yield item.name, facts.st_size, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def code_key() -> str:
    """Return a checksum of the code from which entries follow.

    It is that of Python's version and the files of phmrun, of plug-ins and of their packages. Sizes and times stand for
    contents.
    """
    announcements = all_announcements()  # phmrun's own are among them
    tops = {announcement.point.value.partition(":")[0].partition(".")[0] for announcement in announcements}
    files = [path for top in sorted(tops) for path in _sources_of(top)]
    files += loaded_plugins()
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file()]
    return hashlib.sha256(repr((sys.version, announcements, stamps)).encode()).hexdigest()


def _sources_of(top: str) -> list[Path]:
    """Return the Python files of a package or module, sorted.

    The result is empty without a source. Nothing is imported.
    """
    spec = importlib.util.find_spec(top)
    source = Path(spec.origin) if spec and spec.origin else None
    if source is None:
        return []
    return sorted(source.parent.rglob("*.py")) if source.name == "__init__.py" else [source]
