"""Import of the user's copies of catalogued files into the data directory, under the catalogue's names.

Files are copied to a staging folder and checked there; they are moved into place only if all are right.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from phmrun.datasets.catalogue import Dataset, File
from phmrun.datasets.fetch import build_split, locked
from phmrun.datasets.locations import DROPPED, RECORD, content_sha256, find, write_record
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of
from phmrun.text.lines import GZIP_MAGIC


def import_files(dataset: Dataset, given: Sequence[str], *, force: bool = False) -> list[Path]:
    """Import files into the dataset's folder, and return their paths there.

    On any error nothing is changed. Checksums that the catalogue lacks are recorded.

    Args:
        dataset: The dataset.
        given: Paths of the catalogue's archives and files, recognized by their names with or without ``.gz``, or
            ``SPLIT=PATH`` and ``SPLIT.ROLE=PATH``.
        force: Replace existing files.

    Raises:
        PhmrunError: A file does not belong to this dataset (exit 2); it is missing, damaged, has a wrong checksum, or
            would replace another file (exit 3).
    """
    if dataset.generated:
        raise PhmrunError(f"{dataset.name} comes with phmrun and needs no import")
    archives, sources = _recognized(dataset, given)
    with locked(dataset) as folder, TemporaryDirectory(prefix=".import.", dir=folder) as name:
        stage = Path(name)
        needed = {
            split: {part.archive for file in files for part in file.parts} for split, files in dataset.splits.items()
        }
        dropped = {
            split: build_split(dataset, split, archives, stage)
            for split, names in needed.items()
            if archives and names <= archives.keys()
        }
        staged = {file: stage / file.path for split in dropped for file in dataset.splits[split] if file.parts}
        staged |= {file: _copied(path, file, stage) for file, path in sources.items()}
        if not staged:
            lacks = (
                f"{split}: {', '.join(sorted(names - archives.keys()))}"
                for split, names in needed.items()
                if names & archives.keys()
            )
            what = f"these files are not enough for a split; add for {'; for '.join(lacks)}"
            raise PhmrunError(what, where=dataset.name, code=ExitCode.DATA)
        digests = {file: content_sha256(path, file) for file, path in staged.items()}
        for file, digest in digests.items():
            _check(dataset, file, digest, force)
        for file, path in staged.items():
            if there := find(dataset, file):
                there.unlink()
            target = folder / path.relative_to(stage)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
            if file.sha256 is None:
                write_record(dataset, RECORD, file.path, digests[file])
        for split, left_out in dropped.items():
            if left_out is not None:
                write_record(dataset, DROPPED, split, left_out)
    return [folder / path.relative_to(stage) for path in staged.values()]


def _check(dataset: Dataset, file: File, digest: str, force: bool) -> None:
    """Check that a file's checksum is the catalogue's, if it has one, and that no other file exists unless ``force``.

    Raises:
        PhmrunError: (exit 3) It is another one, or there is another file.
    """
    if file.sha256 not in (None, digest):
        what = f"{file.path} does not have the catalogue's checksum {file.sha256}: damaged, or another version"
        hint = "To train on your own files, see the data options of phmrun train."
        raise PhmrunError(what, where=dataset.name, hint=hint, code=ExitCode.DATA)
    there = find(dataset, file)
    if there is not None and not force and content_sha256(there, file) != digest:
        what, hint = "another file exists already", "To replace it: --force"
        raise PhmrunError(what, where=str(there), hint=hint, code=ExitCode.DATA)


def _recognized(dataset: Dataset, given: Sequence[str]) -> tuple[dict[str, Path], dict[File, Path]]:
    """Return the user's archives by name, and the user's files by the catalogue's.

    Raises:
        PhmrunError: A split does not exist, or nothing in the catalogue has the name (exit 2); there is no such file
            (exit 3).
    """
    targets = {split: files[0] for split, files in dataset.splits.items() if len(files) == 1}
    targets |= {f"{split}.{file.role}": file for split, files in dataset.splits.items() for file in files}
    names = {_bare(file.path): file for file in dataset.files}
    archives = {_bare(archive): archive for archive in dataset.archives}
    packed: dict[str, Path] = {}
    sources: dict[File, Path] = {}
    for text in given:
        target, equals, rest = text.partition("=")
        named = equals and not Path(text).is_file()  # a file's name may contain an equals sign
        if named and target not in targets:
            raise PhmrunError(f"{dataset.name} has no file {target!r}", where=f"{target}=…", valid=sorted(targets))
        path = Path(rest if named else text).expanduser()
        if not path.is_file():
            raise PhmrunError("no such file", where=str(path), code=ExitCode.DATA)
        if named:
            sources[targets[target]] = path
        elif (name := _bare(path.name)) in archives:
            packed[archives[name]] = path
        elif name in names:
            sources[names[name]] = path
        else:
            what = f"the name does not fit: this is not a file of {dataset.name!r}"
            hint = f"Name its split: phmrun data fetch {dataset.name} {next(iter(targets))}={path.name}"
            valid = [*dataset.archives, *(file.path for file in dataset.files)]
            raise PhmrunError(what, where=str(path), valid=valid, hint=hint)
    for name, path in packed.items():
        expected = dataset.archives[name].sha256
        if expected and sha256_of(path) != expected:
            what = f"checksum mismatch: {name} has {expected}"
            raise PhmrunError(what, where=str(path), code=ExitCode.DATA)
    return packed, sources


def _bare(path: str) -> str:
    """Return the file name of a path, without ``.gz``."""
    return Path(path).name.removesuffix(".gz")


def _copied(source: Path, file: File, stage: Path) -> Path:
    """Copy one file into ``stage``; return the copy's path.

    A compressed source of a plain file gets the ending ``.gz``. Readers recognize compression by content.
    """
    with source.open("rb") as handle:
        packed = handle.read(2) == GZIP_MAGIC
    destination = stage / (f"{file.path}.gz" if packed and not file.path.endswith(".gz") else file.path)
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)
    return destination
