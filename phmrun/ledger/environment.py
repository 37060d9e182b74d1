"""Data and environment of a run: ``data.json`` and ``environment.json``.

``environment.json`` has an entry for each process that trained a part of the run. Environment variables are not
recorded. Secrets in the command line are replaced by ``***``.
"""

import functools
import hashlib
import importlib.metadata
import platform
import re
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from phmrun.checksums import Stamp, stamp_of
from phmrun.documents import flat
from phmrun.errors import data_error
from phmrun.files import decompressed, is_name, open_regular

COMPARED = (
    "python",
    "packages",
    "code",
    "system",
    "processor",
    "arithmetic",
    "accelerators",
    "threads",
    "kernels",
    "random_numbers",
    "settings",
    "flags",
)
"""Facts of an entry that can change computed values."""
COMPUTING = ("phmrun", "torch", "pytorch-lightning", "numpy", "sentencepiece", "sacrebleu", "torchmetrics")
"""Packages whose versions are kept."""
_NAME = "(?:api[-_]?key|token|secret|password)"
_SECRET = re.compile(
    rf"(?i)((?:^|[-_.\0]){_NAME}="  # a.token=VALUE
    rf"|(?:^|\0)--?(?:[^=\0]*[-_.])?{_NAME}\0(?!-))[^\0]+"  # --a-token VALUE
    r"|(?<=://)[^/@\s\0]+(?=@)"  # https://LOGIN@host
)
"""Secrets in the words of a command, joined by NUL."""


def now() -> str:
    """Return the current time in UTC as ISO 8601 with seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command() -> list[str]:
    """Return the command line without secrets.

    Values of options such as ``--api-key=…`` or ``--token …`` (also secret, password), and logins in addresses, are
    replaced by ``***``. The program is its file name, or ``python`` if unknown.
    """
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return _SECRET.sub(lambda match: f"{match[1] or ''}***", "\0".join([program, *sys.argv[1:]])).split("\0")


@functools.cache
def packages() -> dict[str, str]:
    """Return the versions of the installed packages that compute; cached."""
    versions = {}
    for name in COMPUTING:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def code() -> dict[str, str]:
    """Return phmrun's commit and the checksum of uncommitted changes.

    The result is empty if phmrun does not run from a checkout, or git fails or takes more than 20 s. Else it has
    ``commit`` and, if tracked Python or YAML files have changed, ``diff_sha256``.
    """
    root = Path(__file__).resolve().parents[2]
    # git also looks in parent folders: installed below another project, phmrun would report that project's commit.
    if not (root / ".git").exists() or not (root / "pyproject.toml").is_file():
        return {}
    try:
        commit, diff = (
            subprocess.run(["git", "-C", str(root), *words], capture_output=True, timeout=20, check=True).stdout
            for words in (["rev-parse", "HEAD"], ["diff", "HEAD", "--", "*.py", "*.yaml"])
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit.decode().strip(), **({"diff_sha256": hashlib.sha256(diff).hexdigest()} if diff else {})}


def processor() -> str:
    """Return the processor's model name.

    It is from ``/proc/cpuinfo``, else from Python; if neither knows it, the architecture.
    """
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if match := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return match[1].strip()
    return platform.processor() or platform.machine()


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """List the facts that differ between two entries.

    Compared are the facts in :data:`COMPARED`, each nested fact by its dotted key. A line is "threads: 1, then 2".
    ``None`` counts as missing, and a missing fact differs from a value. Facts below ``arithmetic`` are compared only
    if both entries have them.
    """
    named = [flat({name: entry.get(name) for name in COMPARED}) for entry in (one, other)]
    before, after = ({key: value for key, value in facts.items() if value is not None} for facts in named)
    keys = [
        key
        for key in dict.fromkeys(["kernels", "settings.tf32", *before, *after])
        # The system may not tell them, so a missing one is no difference.
        if not key.startswith("arithmetic.") or (key in before and key in after)
    ]
    return [f"{key}: {before.get(key)}, then {after.get(key)}" for key in keys if before.get(key) != after.get(key)]


def summary(entry: Mapping[str, Any]) -> str:
    """Return an environment in one line: versions, commit, machine, threads.

    Versions are those of phmrun, torch, Lightning and Python.

    Missing versions of packages are left out. The machine is its accelerators, else its processor. The commit has ten
    digits, and is left out if it is not on record; uncommitted changes are mentioned. An unknown machine, Python or
    number of threads is "None".
    """
    packages, code, threads = entry.get("packages") or {}, entry.get("code") or {}, entry.get("threads")
    parts = [f"{name} {packages[name]}" for name in ("phmrun", "torch", "pytorch-lightning") if name in packages]
    if commit := str(code.get("commit", ""))[:10]:
        parts.append(f"commit {commit}{' with uncommitted changes' if code.get('diff_sha256') else ''}")
    parts.append(f"Python {entry.get('python')}")
    parts += [device.get("name", "") for device in entry.get("accelerators") or []] or [str(entry.get("processor"))]
    return ", ".join([*parts, f"{threads} thread{'' if threads == 1 else 's'}"])


@dataclass(frozen=True)
class Source:
    """File of a split.

    Attributes:
        path: Absolute path at the time of recording.
        sha256: Checksum of the content, decompressed if it is gzip.
        bytes: Size on disk in bytes, compressed if it is gzip.
    """

    path: str
    sha256: str
    bytes: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Read a file and return its record.

        A gzip file, known by its first two bytes, is hashed decompressed.

        Raises:
            PhmrunError: (exit 3) The file is missing or damaged.
        """
        try:
            with open_regular(path, most=sys.maxsize) as plain:
                digest = hashlib.file_digest(decompressed(plain), "sha256")  # type: ignore[arg-type]
        except (OSError, EOFError, zlib.error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise data_error(f"the file cannot be read: {reason}", path) from error
        return cls(str(path.absolute()), digest.hexdigest(), path.stat().st_size)


@functools.lru_cache(maxsize=4096)
def _sha256_once(stamp: Stamp) -> str:
    """Return the checksum of the content of the file with this stamp; see :class:`Source`."""
    return Source.of(Path(stamp[0])).sha256


@dataclass(frozen=True)
class Split:
    """Files of a split, in reading order."""

    files: tuple[Source, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Self:
        """Read the records of files.

        Raises:
            PhmrunError: (exit 3) A file is missing or damaged.
        """
        return cls(tuple(Source.of(path) for path in paths))

    @property
    def sha256(self) -> str:
        """Checksum of the split.

        It is the checksum of its only file. Otherwise it is the SHA-256 of its files' checksums in order, one a line;
        without files, of an empty text.
        """
        sums = [file.sha256 for file in self.files]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(f"{line}\n" for line in sums).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """First twelve digits of the checksum, as in a score's signature."""
        return self.sha256[:12]


@dataclass(frozen=True)
class DataRecord:
    """Content of ``data.json``.

    Attributes:
        splits: Files by name of split.
        fingerprints: Checksums that the run id depends on: text, plug-ins, the run that it extends.
    """

    splits: Mapping[str, Split] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, split: Split) -> str | None:
        """Return the name of the recorded split with this content.

        Checksums are compared, not paths. Of several, it is "test", else the first. The result is ``None`` if no split
        has the content.
        """
        names = [name for name, candidate in self.splits.items() if candidate.sha256 == split.sha256]
        return "test" if "test" in names else next(iter(names), None)

    @property
    def files(self) -> list[Source]:
        """Files of all splits, each once."""
        return list(dict.fromkeys(file for split in self.splits.values() for file in split.files))

    @property
    def changed(self) -> list[Path]:
        """Files on this machine that differ from their records; one that stays as it is, is read once."""
        return [file for file, recorded in self.here.items() if _sha256_once(stamp_of(file)) != recorded]

    @property
    def here(self) -> dict[Path, str]:
        """Checksums on record of the files on this machine; only absolute paths are looked up."""
        # Stored results have bare names: a file of that name in the current directory is another one.
        paths = {Path(file.path): file.sha256 for file in self.files}
        return {path: digest for path, digest in paths.items() if path.is_absolute() and path.is_file()}

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object.

        Keys: "fingerprints", and "splits" with "sha256" and "files" of each.
        """
        splits = {
            name: {"sha256": split.sha256, "files": [dict(vars(file)) for file in split.files]}
            for name, split in self.splits.items()
        }
        return {"fingerprints": dict(self.fingerprints), "splits": splits}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "DataRecord":
        """Return the record of a JSON object.

        Raises:
            ValueError: The object is not a record, or a split's name is not a valid file name.
        """
        record = _RECORD.validate_python(content)
        if odd := [name for name in record.splits if not is_name(name)]:  # it becomes a file name of predictions
            raise ValueError(f"{odd[0]!r:.80} is not a valid name of a split")
        return record


_RECORD = TypeAdapter(DataRecord)
