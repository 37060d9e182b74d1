"""Import of the user's copies of catalogued files into the data directory, under the catalogue's names.

Files are copied to a staging folder and checked there; they are moved into place only if all are right.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from phmrun.datasets.catalogue import Dataset, File
from phmrun.datasets.fetch import build_split, locked
from phmrun.datasets.locations import DROPPED, RECORD, content_sha256, dataset_dir, find, write_record
from phmrun.datasets.reading import compare, count
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of
from phmrun.text.lines import GZIP_MAGIC


@dataclass(frozen=True)
class Imported:
    """Result of an import."""

    paths: list[Path]  # final paths of the imported files
    sizes: dict[str, dict[str, int]]  # counts by unit of each split that is now complete


def import_files(dataset: Dataset, given: Sequence[str], *, force: bool = False) -> Imported:
    """Import files into the dataset's folder.

    On any error nothing is changed.

    Args:
        dataset: The dataset.
        given: Paths of the catalogue's archives and files, recognized by their names with or without ``.gz``, or
            ``SPLIT=PATH`` and ``SPLIT.ROLE=PATH``.
        force: Replace existing files, and accept files whose counts differ from the published ones.

    Raises:
        PhmrunError: A file does not belong to this dataset (exit 2); it is missing, damaged, of another format, has a
            wrong checksum or unexpected counts, or would replace another file (exit 3).
    """
    if dataset.generated:
        raise PhmrunError(f"{dataset.name} comes with phmrun and needs no import")
    archives, sources = _recognized(dataset, given)
    with locked(dataset) as folder, TemporaryDirectory(prefix=".import.", dir=folder) as name:
        stage = Path(name)
        dropped = {
            split: build_split(dataset, split, archives, stage)
            for split, files in dataset.splits.items()
            if archives and {part.archive for file in files for part in file.parts} <= archives.keys()
        }
        staged = {file: stage / file.path for split in dropped for file in dataset.splits[split] if file.parts}
        staged |= {file: _copied(path, file, stage) for file, path in sources.items()}
        if not staged:
            lacks = (
                f"{split}: {', '.join(sorted(needed - archives.keys()))}"
                for split, files in dataset.splits.items()
                if (needed := {part.archive for file in files for part in file.parts}) & archives.keys()
            )
            what = f"these files are not enough for a split; add for {'; for '.join(lacks)}"
            raise PhmrunError(what, where=dataset.name, code=ExitCode.DATA)
        sizes = _checked(dataset, staged, stage, dropped, force)
        placed = _placed(dataset, staged, stage, force)
        for split, left_out in dropped.items():
            if left_out is not None:
                write_record(dataset, DROPPED, split, left_out)
    return Imported(placed, sizes)


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


def _checked(
    dataset: Dataset, staged: Mapping[File, Path], stage: Path, dropped: Mapping[str, int | None], force: bool
) -> dict[str, dict[str, int]]:
    """Check checksums and counts of the splits with staged files.

    Files of these splits that are already in place are counted, too.

    Returns:
        Counts by unit of each split that is now complete.

    Raises:
        PhmrunError: (exit 3) A checksum or, without ``force``, a count differs, or a file is of another format.
    """
    sizes: dict[str, dict[str, int]] = {}
    for file, path in staged.items():
        if file.sha256 and content_sha256(path, file) != file.sha256:
            what = f"{file.path} does not have the catalogue's checksum {file.sha256}: damaged, or another version"
            hint = "To train on your own files, see the data options of phmrun train."
            raise PhmrunError(what, where=dataset.name, hint=hint, code=ExitCode.DATA)
    for split, files in dataset.splits.items():
        if not staged.keys() & set(files):
            continue
        paths = {file.role: staged.get(file) or find(dataset, file) for file in files}
        complete = {role: path for role, path in paths.items() if path is not None}
        try:
            counts = count(dataset, split, complete)
        except PhmrunError as error:  # name the file without the staging folder
            error.where = error.where and error.where.replace(f"{stage}{os.sep}", "")
            error.what = error.what.replace(f"{stage}{os.sep}", "")
            raise
        if len(complete) == len(files):
            sizes[split] = counts
        for counted in compare(dataset, split, counts, left_out=dropped.get(split)):
            if counted.verdict in ("too few", "more than published") and not force:
                what = f"{split} has {counted.found:,} {counted.unit} instead of the published {counted.published:,}"
                why = "It is truncated" if counted.verdict == "too few" else "It holds more than this split"
                hint = f"{why}, or is another version. To import it anyway: --force"
                raise PhmrunError(what, where=dataset.name, hint=hint, code=ExitCode.DATA)
    return sizes


def _placed(dataset: Dataset, staged: Mapping[File, Path], stage: Path, force: bool) -> list[Path]:
    """Move the staged files into place.

    Return the paths of those that are new. Files with the same content stay. A file that is replaced under another
    ending is removed. Checksums that the catalogue lacks are recorded.

    Raises:
        PhmrunError: (exit 3) Another file exists, and ``force`` is not set; nothing is moved.
    """
    digests = {file: content_sha256(path, file) for file, path in staged.items()}
    moves: dict[File, Path | None] = {}
    for file, digest in digests.items():
        there = find(dataset, file)
        if there is None or content_sha256(there, file) != digest:
            if there is not None and not force:
                what, hint = "another file exists already", "To replace it: --force"
                raise PhmrunError(what, where=str(there), hint=hint, code=ExitCode.DATA)
            moves[file] = there
    # All files are compared before the first one is moved, so that an error changes nothing.
    for file, there in moves.items():
        target = dataset_dir(dataset) / staged[file].relative_to(stage)
        target.parent.mkdir(parents=True, exist_ok=True)
        if there is not None:
            there.unlink()
        staged[file].replace(target)
    for file, digest in digests.items():
        if file.sha256 is None:
            write_record(dataset, RECORD, file.path, digest)
    return [dataset_dir(dataset) / staged[file].relative_to(stage) for file in moves]
