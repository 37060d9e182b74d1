"""Manifest of a run: checksums of the files that later steps read, and the identity that its id is made of.

``manifest.json`` is written with each change of the run's state. A run that ended has the checksum of every file of
:data:`FILES` and :data:`FOLDERS`; a running one of those that training does not change. A file written after that (by
``eval``, ``bench run``) is entered before it is replaced, beside the checksum that it had: killed in between, the run
is whole either way. Outside are the card, the log, mirrors and exports: nothing is computed from them.

The canonical identity is kept as it was hashed: rebuilt from today's defaults, it would refuse runs of other releases.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from phmrun.checksums import CHECKSUMS, checksum_once, stamp_of
from phmrun.config.identity import digits_of
from phmrun.documents import parse_json, plain
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular, sha256_of, write_json

MANIFEST = "manifest.json"
FORMAT = "phmrun-manifest-1"
FIXED = ("config.yaml", "data.json", "parameters.json", "imported.json")
"""Files that training does not change once it runs."""
FILES = (
    *(*FIXED, "status.json", "metrics.json", "history.jsonl", "environment.json"),
    *("bench.json", "items.json", "weights.json"),
)
FIXED_FOLDERS = ("vocabulary", "plugins")
FOLDERS = (*FIXED_FOLDERS, "checkpoints", "predictions")
_SMALL = 1 << 20
"""Bytes up to which a file is hashed at every reading."""


@dataclass(frozen=True)
class Record:
    """Content of a manifest.

    Attributes:
        identity: Canonical identity, which the run id holds the checksum of.
        files: Accepted SHA-256 sums of each file by its path in the run; ``None`` stands for a missing file.
        code: Code in use, by kind and name.
        prepared: Name of the prepared data in the cache, and the checksum of their checksums.
    """

    identity: str | None = None
    files: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    code: Mapping[str, Any] = field(default_factory=dict)
    prepared: tuple[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object, with a checksum of its own."""
        files = {name: sums[0] if len(sums) == 1 else list(sums) for name, sums in self.files.items()}
        about = {"identity": self.identity, "code": dict(self.code), "prepared": self.prepared}
        content = {"format": FORMAT, **plain(about), "files": files}
        return {**content, "sha256": _checksum_of(content)}

    @classmethod
    def from_json(cls, content: Any) -> "Record":
        """The record that a JSON object holds; a ``ValueError`` if its own checksum is another."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        if content.pop("sha256", None) != _checksum_of(content):
            raise ValueError("checksum mismatch")
        files = {name: tuple(sums) if isinstance(sums, list) else (sums,) for name, sums in content["files"].items()}
        prepared = content["prepared"]
        return cls(content["identity"], files, content["code"], tuple(prepared) if prepared else None)


class Manifest:
    """The manifest of one run directory. Methods that write expect that no other process writes into the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / MANIFEST

    def read(self) -> Record | None:
        """The record; ``None`` for a run of a release that wrote none.

        Raises:
            PhmrunError: (exit 3) The manifest is damaged.
        """
        try:
            return Record.from_json(parse_json(read_regular(self.path)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._broken(MANIFEST, f"the file is damaged: {error}") from error

    def begin(self, identity: str, code: Mapping[str, Any]) -> None:
        """Write the record of a run that is about to train; its identity stays if it has one."""
        record = self.read() or Record()
        identity, code = record.identity or identity, code or record.code
        self._write(replace(record, identity=identity, files=self._now(("config.yaml",), ()), code=code))

    def open(self) -> None:
        """Take the files that training changes out of the record, if there is one."""
        if record := self.read():
            self._write(replace(record, files=self._now(("config.yaml",), ())))

    def fix(self, prepared: Path | None) -> None:
        """Enter the files that training does not change from here on, and the prepared data that it reads.

        Raises:
            PhmrunError: (exit 3) The data were prepared otherwise when the run began.
        """
        if record := self.read():
            before, now = record.prepared, None
            if prepared is not None and (prepared / CHECKSUMS).is_file():
                now = prepared.name, sha256_of(prepared / CHECKSUMS)
            if before is not None and now is not None and before[0] == now[0] and before != now:
                raise self._broken("the prepared data", f"{prepared} holds others than the run has been trained on")
            self._write(replace(record, files=self._now(FIXED, FIXED_FOLDERS), prepared=now))

    def settle(self, status: bytes) -> None:
        """Enter all files as they are, and the status that is about to be written."""
        if record := self.read():
            files = self._now(FILES, FOLDERS)
            files["status.json"] = (_sha256(status), *files.get("status.json", (None,)))
            self._write(replace(record, files=files))

    def expect(self, path: Path, content: bytes) -> None:
        """Enter a file that is about to be written, unless training goes on and no file of that kind is entered."""
        record, name = self.read(), self._name(path)
        if record is None or ("status.json" not in record.files and name not in record.files):
            return
        now = sha256_of(path) if path.is_file() else None
        self._write(replace(record, files={**record.files, name: (_sha256(content), now)}))

    def check(self, path: Path, content: bytes | None = None) -> None:
        """Refuse a file of the run that is not as the run has written it; ``content`` is what was read of it.

        Raises:
            PhmrunError: (exit 3) The checksum is another, or the file is missing.
        """
        if (record := self.read()) is None or self._accepts(record, path, content):
            return
        # Another process may have written both meanwhile.
        again = self.read()
        if again is not None and not self._accepts(again, path, None):
            missing = not path.is_file()
            raise self._broken(self._name(path), "the file is missing" if missing else "checksum mismatch")

    def check_identity(self) -> None:
        """Refuse a run whose identity is not the one that its id is the checksum of.

        Raises:
            PhmrunError: (exit 3) The digits of the id are others.
        """
        record, digits = self.read(), self.folder.resolve().name.rpartition("-")[2]
        if record is None or record.identity is None or len(digits) != 12 or not set(digits) <= set("0123456789abcdef"):
            return  # a run directory that the user has renamed has no digits
        if digits_of(record.identity) != digits:
            raise self._broken("the run id", f"it is that of another experiment, -{digits_of(record.identity)}")

    def check_all(self, *, without: Iterable[str] = ()) -> None:
        """Check identity and all files, but for those in the folders ``without``.

        Raises:
            PhmrunError: (exit 3) Naming the first file that is not as the run has written it.
        """
        self.check_identity()
        if record := self.read():
            for name in record.files:
                if name.partition("/")[0] not in without and not self._accepts(record, self.folder / name, None):
                    self.check(self.folder / name)

    def names(self) -> list[str]:
        """Paths in the run of all files that are there and belong to a manifest."""
        return list(self._present(FILES, FOLDERS))

    def _accepts(self, record: Record, path: Path, content: bytes | None) -> bool:
        sums = record.files.get(self._name(path))
        if sums is None:
            return True
        try:
            if content is None and path.stat().st_size > _SMALL:
                return checksum_once(stamp_of(path)) in sums
            return _sha256(read_regular(path) if content is None else content) in sums
        except FileNotFoundError:
            return None in sums
        except OSError as error:
            raise self._broken(self._name(path), f"the file cannot be read: {error.strerror}") from error

    def _now(self, files: Iterable[str], folders: Iterable[str]) -> dict[str, tuple[str | None, ...]]:
        return {name: (sha256_of(self.folder / name),) for name in self._present(files, folders)}

    def _present(self, files: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
        yield from (name for name in files if (self.folder / name).is_file())
        for folder in folders:
            paths = (path for path in sorted((self.folder / folder).rglob("*")) if path.is_file())
            yield from (self._name(path) for path in paths if not path.name.startswith("."))

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _write(self, record: Record) -> None:
        write_json(self.path, record.to_json())

    def _broken(self, link: str, why: str) -> PhmrunError:
        return PhmrunError(
            f"the run's chain is broken at {link}: {why}",
            where=str(self.folder / link if "/" in link or "." in link else self.folder),
            hint="`phmrun verify` names every link. Put the file back from a copy, or train the run anew (--restart).",
            code=ExitCode.DATA,
        )


def changed_code(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is computed by other code than before: "layer low-rank (mine 1.0, now mine 1.1)"."""
    changed = []
    for name in sorted(before.keys() & now.keys()):
        old, new = before[name], now[name]
        if old["sha256"] != new["sha256"] or old["distribution"] != new["distribution"]:
            releases = [" ".join(filter(None, (each["distribution"], each["version"]))) for each in (old, new)]
            same = releases[0] == releases[1]
            changed.append(f"{name} ({releases[0]}{', changed since' if same else f', now {releases[1]}'})")
    return changed


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checksum_of(content: Mapping[str, Any]) -> str:
    return _sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode("ascii"))
