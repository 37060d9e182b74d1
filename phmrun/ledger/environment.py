"""What a run was made of and made on: ``data.json`` and ``environment.json``.

The second has an entry for each process that trained a part of the run. The environment's variables are not read, and
what looks like a password in the command is not written.
"""

import functools
import gzip
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from phmrun.documents import flat
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import is_name, write_text

LONGEST_DIFF = 2**20
"""Bytes of uncommitted changes that a run keeps; of longer ones it has the checksum."""
COMPARED = (
    "python",
    "packages",
    "code",
    "system",
    "processor",
    "cpu",
    "arithmetic",
    "accelerators",
    "threads",
    "kernels",
    "settings",
    "flags",
)
"""Facts of an entry that can change what is computed."""
FORMERLY = {"kernels": "torch", "settings.tf32": False}
"""Values of facts that entries of earlier versions lack."""
_SECRET = re.compile(r"(?i)((?:^|[-_.])(?:api[-_]?key|token|secret|password)=).+|(?<=://)[^/@\s]+(?=@)")


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def usable_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def command() -> list[str]:
    """The command line, without what looks like a password."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return [program, *(_SECRET.sub(lambda found: f"{found[1] or ''}***", word) for word in sys.argv[1:])]


@functools.cache
def packages() -> dict[str, str]:
    """Versions of phmrun and of all that it, Lightning and torch compute with, as far as they are installed."""
    names = dict.fromkeys(["phmrun", *_required("phmrun"), *_required("torch"), *_required("pytorch-lightning")])
    found = {}
    for name in sorted(names, key=str.lower):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def code(keep: Path) -> dict[str, Any]:
    """Commit and uncommitted changes of phmrun, where it runs from a checkout; empty elsewhere.

    The changes are written into ``keep`` as ``code-<first digits of their checksum>.diff``.
    """
    root = Path(__file__).resolve().parents[2]

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, timeout=20, check=True)
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.decode("utf-8", errors="replace")

    # git looks in the folders above, too: installed below another project, phmrun would take that one's commit.
    checkout = (root / ".git").exists() and (root / "pyproject.toml").is_file()
    commit = git("rev-parse", "HEAD").strip() if checkout else ""
    if not commit:
        return {}
    diff = git("diff", "HEAD", "--", "*.py", "*.yaml")
    found: dict[str, Any] = {"commit": commit}
    if diff:
        found["diff_sha256"] = hashlib.sha256(diff.encode()).hexdigest()
        if len(diff.encode()) <= LONGEST_DIFF:
            found["diff"] = f"code-{found['diff_sha256'][:12]}.diff"
            write_text(keep / found["diff"], diff)
    return found


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found.group(1) if found else platform.processor() or platform.machine()


def cpu() -> dict[str, Any]:
    """Vendor, family, model and stepping of the processor; empty if the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    named = {"vendor": "vendor_id", "family": "cpu family", "model": "model", "stepping": "stepping"}
    facts = {name: re.search(rf"^{key}\s*:\s*(.+)$", text, re.MULTILINE) for name, key in named.items()}
    return {name: match.group(1).strip() for name, match in facts.items() if match}


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """List the facts that can change what is computed and differ in two entries: "threads: 1, then 2"."""
    named = [flat({name: entry.get(name) for name in COMPARED}) for entry in (one, other)]
    # The name of the file that keeps a diff does not count; an unknown fact is as a missing one.
    before, after = (
        {**FORMERLY, **{key: value for key, value in facts.items() if key != "code.diff" and value is not None}}
        for facts in named
    )
    keys = [
        key
        for key in dict.fromkeys([*before, *after])
        # Records of earlier versions lack these, which says nothing of the machine.
        if not key.startswith(("cpu.", "arithmetic.")) or (key in before and key in after)
    ]
    return [f"{key}: {before.get(key)}, then {after.get(key)}" for key in keys if before.get(key) != after.get(key)]


def said(segments: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each process of a run, and what changed between two of them."""
    for number, entry in enumerate(segments):
        steps = f"steps {entry.get('first_step', 0):,} to {entry.get('last_step', 0):,}"
        what = summary(entry) if "python" in entry else "by a release that kept no record of its environment"
        yield f"{number + 1}: {steps}, {entry.get('state')}, {entry.get('started')}: {what}"
        if number and (changed := differences(segments[number - 1], entry)):
            yield f"   changed before it: {'; '.join(changed)}"


def summary(entry: Mapping[str, Any]) -> str:
    """An environment in a line: versions, machine, threads."""
    packages, code, threads = entry.get("packages") or {}, entry.get("code") or {}, entry.get("threads")
    parts = [f"{name} {packages[name]}" for name in ("phmrun", "torch", "pytorch-lightning") if name in packages]
    if commit := str(code.get("commit", ""))[:10]:
        parts.append(f"commit {commit}{' with uncommitted changes' if code.get('diff_sha256') else ''}")
    parts.append(f"Python {entry.get('python')}")
    parts += [each.get("name", "") for each in entry.get("accelerators") or []] or [str(entry.get("processor"))]
    return ", ".join([*parts, f"{threads} thread{'' if threads == 1 else 's'}"])


def _required(name: str) -> list[str]:
    """Names of the packages that one asks for, those for its development left out."""
    try:
        wanted = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    kept = (text for text in wanted if name == "phmrun" or "extra ==" not in text)
    return [re.split(r"[^A-Za-z0-9._-]", text)[0] for text in kept if not re.search(r"""extra == ['"]dev""", text)]


@dataclass(frozen=True)
class Source:
    """A file that a split is read from: where it lay, the checksum of its (decompressed) content, its bytes on disk."""

    path: str
    sha256: str
    bytes: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The file as it is now; a `PhmrunError` (exit 3) where it is missing or damaged."""
        digest = hashlib.sha256()
        try:
            with path.open("rb") as plain:
                compressed = plain.read(2) == b"\x1f\x8b"
                plain.seek(0)
                stream = gzip.GzipFile(fileobj=plain) if compressed else plain
                while piece := stream.read(1 << 20):
                    digest.update(piece)
        except (OSError, EOFError, zlib.error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise PhmrunError(f"the file cannot be read: {reason}", where=str(path), code=ExitCode.DATA) from error
        return cls(str(path.absolute()), digest.hexdigest(), path.stat().st_size)


@dataclass(frozen=True)
class Split:
    """The files of a split, in the order in which they are read."""

    files: tuple[Source, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Self:
        """The files as they are now; a `PhmrunError` (exit 3) where one is missing or damaged."""
        return cls(tuple(Source.of(path) for path in paths))

    @property
    def sha256(self) -> str:
        """One checksum for the split: its file's, or of the lines of its files' checksums."""
        sums = [file.sha256 for file in self.files]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(f"{each}\n" for each in sums).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """The checksum as it stands in a score's signature: twelve hexadecimal digits."""
        return self.sha256[:12]


@dataclass(frozen=True)
class DataRecord:
    """The content of ``data.json``: the files of each split, and the checksums that are part of the run's name.

    Those are of text, plug-ins and the run that it extends.
    """

    splits: Mapping[str, Split] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, split: Split) -> str | None:
        """The name of the split that has this content, wherever its files lie now."""
        names = [name for name, each in self.splits.items() if each.sha256 == split.sha256]
        return "test" if "test" in names else next(iter(names), None)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        splits = {name: {"sha256": each.sha256, **asdict(each)} for name, each in self.splits.items()}
        return {"fingerprints": dict(self.fingerprints), "splits": splits}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The record that a JSON object holds; a ``ValueError`` where it is none."""
        try:
            splits = {}
            for name, split in content["splits"].items():
                if not is_name(name):  # predictions are named for it
                    raise ValueError(f"{name!r:.80} is no name of a split")
                files = (Source(str(e["path"]), str(e["sha256"]), int(e["bytes"])) for e in split["files"])
                splits[str(name)] = Split(tuple(files))
            return cls(splits, {str(key): str(value) for key, value in content["fingerprints"].items()})
        except (ArithmeticError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no record of a run's data: {error!r}") from error
