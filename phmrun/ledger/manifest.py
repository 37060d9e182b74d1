"""Manifest of a run: checksums of its files, and its identity.

``manifest.json`` is written with each change of the run's state. It has the checksum of every file of :data:`FILES` and
:data:`FOLDERS` if the run has ended, and of the files that training does not change if it is running.

A file written later (by ``eval``, ``bench run``) is entered before it is replaced, beside its previous checksum. A run
killed in between is therefore valid. The log, mirrors and exports are not entered: no step reads them.

The canonical identity is kept as it was hashed. Rebuilt from the defaults of another release, it would differ.
"""

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from phmrun.checksums import CHECKSUMS, checksum_once, stamp_of
from phmrun.config.identity import digits_of
from phmrun.documents import parse_json, plain
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular, sha256_of, write_json
from phmrun.ledger.directory import MANIFEST

FORMAT = "phmrun-manifest-1"
FIXED = ("config.yaml", "data.json", "parameters.json", "imported.json", "base.json")
"""Files that do not change during training."""
FILES = (
    *(*FIXED, "status.json", "metrics.json", "history.jsonl", "environment.json"),
    *("bench.json", "items.json", "weights.json"),
)
FIXED_FOLDERS = ("vocabulary", "plugins")
FOLDERS = (*FIXED_FOLDERS, "checkpoints", "predictions")
_SMALL = 1 << 20
"""Size in bytes up to which a file is hashed at every reading; checksums of larger ones are cached."""


@dataclass(frozen=True)
class Record:
    """Content of a manifest.

    Attributes:
        identity: Canonical identity; the run id ends with digits of its checksum.
        files: Accepted SHA-256 sums by path in the run; a sum of ``None`` accepts a missing file.
        prepared: Name of the prepared data in the cache, and the SHA-256 of their list of checksums.
    """

    identity: str | None = None
    files: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    prepared: tuple[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object with its own checksum.

        Keys: "format", "identity", "prepared", "files" and "sha256", the checksum of the others. A single
        accepted sum of a file is a text (or ``None``), several are a list.
        """
        files = {name: sums[0] if len(sums) == 1 else list(sums) for name, sums in self.files.items()}
        about = {"identity": self.identity, "prepared": self.prepared}
        content = {"format": FORMAT, **plain(about), "files": files}
        return {**content, "sha256": _checksum_of(content)}

    @classmethod
    def from_json(cls, content: Any) -> "Record":
        """Return the record of a JSON object.

        Removes the key "sha256" from ``content``.

        Raises:
            ValueError: The format is unknown, or the object's own checksum differs.
            LookupError: A key is missing.
        """
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        if content.pop("sha256", None) != _checksum_of(content):
            raise ValueError("checksum mismatch")
        files = {name: tuple(sums) if isinstance(sums, list) else (sums,) for name, sums in content["files"].items()}
        prepared = content["prepared"]
        return cls(content["identity"], files, tuple(prepared) if prepared else None)


class BrokenChain(PhmrunError):
    """Error (exit 3) of a file whose checksum is not that of the manifest."""


class Manifest:
    """Manifest of a run directory.

    Methods that write expect that no other process writes into the run meanwhile.

    Attributes:
        kept: Record that was read last; with ``once`` it is not read again.

    Args:
        folder: Run directory.
        once: Read the record once, except after a mismatch. Default: ``False``.
    """

    def __init__(self, folder: Path, *, once: bool = False) -> None:
        self.folder, self.once = folder, once
        self.path = folder / MANIFEST
        self.kept: Record | None = None

    def read(self, *, anew: bool = False) -> Record | None:
        """Read the record; ``None`` if there is none. With ``anew``, it is read even if it was before.

        Raises:
            PhmrunError: (exit 3) The manifest is damaged.
        """
        if self.kept and self.once and not anew:
            return self.kept
        try:
            self.kept = Record.from_json(parse_json(read_regular(self.path)))
            return self.kept
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._broken(MANIFEST, f"the file is damaged: {error}") from error

    def begin(self, identity: str | None = None) -> None:
        """Write the record of a run that is about to train, creating it if missing.

        It has the identity, and the checksum of ``config.yaml``. An identity on record is kept. Checksums of other
        files are dropped. Nothing is done without a record and an identity.
        """
        record = self.read() or (Record(identity) if identity else None)
        if record:
            self._write(replace(record, identity=record.identity or identity, files=self._now(("config.yaml",), ())))

    def fix(self, prepared: Path | None) -> None:
        """Enter the prepared data and files that training does not change.

        The files are config, data, parameters, import and base run, and those of vocabulary and plug-ins. They replace
        all files on record; missing ones are left out. Nothing is done without a record.

        Args:
            prepared: Directory of the prepared data in the cache; ``None`` if they are not cached.

        Raises:
            PhmrunError: (exit 3) The prepared data have changed since the run began.
        """
        if record := self.read():
            before, now = record.prepared, None
            if prepared is not None and (prepared / CHECKSUMS).is_file():
                now = prepared.name, sha256_of(prepared / CHECKSUMS)
            if before is not None and now is not None and before[0] == now[0] and before != now:
                raise self._broken("the prepared data", f"{prepared} has other data than the run was trained on")
            self._write(replace(record, files=self._now(FIXED, FIXED_FOLDERS), prepared=now))

    def settle(self, status: bytes) -> None:
        """Replace the files on record by all present ones and a status.

        ``status`` is the content of the status file that is written next; the present one stays accepted, too. Nothing
        is done without a record.
        """
        if record := self.read():
            files = self._now(FILES, FOLDERS)
            files["status.json"] = (_sha256(status), *files.get("status.json", (None,)))
            self._write(replace(record, files=files))

    def expect(self, path: Path, content: bytes) -> None:
        """Enter a file to be written, beside its present checksum.

        A file that is missing now is also accepted as missing. During training (the status is not on record), only
        files that are already on record are entered. Nothing is done without a record.
        """
        record, name = self.read(), self._name(path)
        if record is None or ("status.json" not in record.files and name not in record.files):
            return
        now = sha256_of(path) if path.is_file() else None
        self._write(replace(record, files={**record.files, name: (_sha256(content), now)}))

    def check(self, path: Path, content: bytes | None = None, record: Record | None = None) -> None:
        """Check a file of the run against its checksum.

        Files that are not on record pass; without a manifest, every file does. After a mismatch, manifest and file are
        read once more.

        Args:
            path: Path of the file.
            content: Content that was read from it. Default: the file is read.
            record: Record that has just been read. Default: it is read.

        Raises:
            PhmrunError: (exit 3) The checksum differs, or the file is missing or unreadable.
        """
        if (record := record or self.read()) is None or self._accepts(record, path, content):
            return
        # Another process may have written file and manifest meanwhile.
        again = self.read(anew=True)
        if again is not None and not self._accepts(again, path, None):
            missing = not path.is_file()
            raise self._broken(self._name(path), "the file is missing" if missing else "checksum mismatch")

    def check_identity(self) -> None:
        """Check the digits of the run id against the identity.

        A directory whose name does not end with twelve hexadecimal digits, or without an identity, passes.

        Raises:
            PhmrunError: (exit 3) The digits differ.
        """
        record, digits = self.read(), self.folder.resolve().name.rpartition("-")[2]
        if record is None or record.identity is None or len(digits) != 12 or not set(digits) <= set("0123456789abcdef"):
            return  # renamed by the user
        if digits_of(record.identity) != digits:
            raise self._broken("the run id", f"it is that of another experiment, -{digits_of(record.identity)}")

    def check_all(self, *, without: Iterable[str] = ()) -> None:
        """Check the identity and all files on record.

        A run without a manifest passes.

        Args:
            without: Names of files and folders at the run's top level that are not checked.

        Raises:
            PhmrunError: (exit 3) A checksum differs or a file is missing; names the first one.
        """
        self.check_identity()
        if record := self.read():
            for name in record.files:
                if name.partition("/")[0] not in without:
                    self.check(self.folder / name, record=record)

    def names(self) -> list[str]:
        """Return the paths of all present files that a manifest covers.

        They are relative to the run.
        """
        return list(self._present(FILES, FOLDERS))

    def _accepts(self, record: Record, path: Path, content: bytes | None) -> bool:
        """True if a file has an accepted checksum.

        A file that is not on record is accepted. A missing file passes if ``None`` is accepted. If ``content`` is
        ``None``, the file is read. The checksum of a file above 1 MiB is computed once in a process, while its size and
        times stay.

        Raises:
            PhmrunError: (exit 3) The file cannot be read.
        """
        sums = record.files.get(self._name(path))
        if sums is None:
            return True
        try:
            size = path.stat().st_size if content is None else 0
            if size > _SMALL:
                return checksum_once(stamp_of(path)) in sums
            return _sha256(read_regular(path) if content is None else content) in sums
        except FileNotFoundError:
            return None in sums
        except OSError as error:
            raise self._broken(self._name(path), f"the file cannot be read: {error.strerror}") from error

    def _now(self, files: Iterable[str], folders: Iterable[str]) -> dict[str, tuple[str | None, ...]]:
        """Return the checksums of the present files by path.

        Each is a tuple of length 1.
        """
        return {name: (sha256_of(self.folder / name),) for name in self._present(files, folders)}

    def _present(self, files: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
        """Yield the existing files, then those below folders.

        Paths are relative to the run. Those of a folder are sorted; hidden ones are left out.
        """
        yield from (name for name in files if (self.folder / name).is_file())
        for folder in folders:
            paths = (path for path in sorted((self.folder / folder).rglob("*")) if path.is_file())
            yield from (self._name(path) for path in paths if not path.name.startswith("."))

    def _name(self, path: Path) -> str:
        """Return a path relative to the run, with forward slashes."""
        return path.relative_to(self.folder).as_posix()

    def _write(self, record: Record) -> None:
        """Write a record as the manifest, atomically."""
        write_json(self.path, record.to_json())

    def _broken(self, link: str, why: str) -> BrokenChain:
        """Return the error (exit 3) for a file or fact that fails its check."""
        return BrokenChain(
            f"the run's chain is broken at {link}: {why}",
            where=str(self.folder / link if "/" in link or "." in link else self.folder),
            hint=f"`phmrun verify {shlex.quote(str(self.folder))}` names every link. Restore the file from a "
            "copy, or start the run over (--restart).",
            code=ExitCode.DATA,
        )


def _sha256(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _checksum_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON object with sorted keys."""
    return _sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode("ascii"))
