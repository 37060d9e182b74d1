"""Import of the user's copies of catalogued files into the data directory, under the catalogue's names.

Files are copied to a staging folder and checked there; they are moved into place only if all are right.
"""

import gzip
import os
import shutil
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import IO, cast

from phmrun.datasets.archives import CHUNK, extract, is_archive, lines_of, members, opened, unpacked
from phmrun.datasets.catalogue import Dataset, File
from phmrun.datasets.fetch import build_split, disk_error
from phmrun.datasets.locations import content_sha256, dataset_dir, find, recorded_checksums, write_dropped, write_record
from phmrun.datasets.reading import compare, count
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import file_lock, replacing, sha256_of
from phmrun.text.lines import GZIP_MAGIC


@dataclass(frozen=True)
class Source:
    """Origin of a file's content: a path, or a member of that archive."""

    path: Path
    member: str | None = None


@dataclass
class _Plan:
    """Sources of the imported files, by the catalogue's names."""

    direct: dict[str, Source] = field(default_factory=dict)
    archives: dict[str, Path] = field(default_factory=dict)
    # by archive, a table that the user extracted from it and that holds several splits
    tables: dict[str, Source] = field(default_factory=dict)


@dataclass
class _Staged:
    """Content of the staging folder."""

    folder: Path
    paths: dict[str, Path] = field(default_factory=dict)  # staged files, by the catalogue's path
    # number of pairs left out, by assembled split
    dropped: dict[str, int] = field(default_factory=dict)


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
        given: Paths of files or archives, recognized by their names, or ``SPLIT=PATH`` and ``SPLIT.ROLE=PATH``.
        force: Replace existing files, and accept files whose counts differ from the published ones.

    Raises:
        PhmrunError: A file does not belong to this dataset (exit 2); it is missing, damaged, of another format, has a
            wrong checksum or unexpected counts, or would replace another file (exit 3).
    """
    if dataset.generated:
        raise PhmrunError(f"{dataset.name} comes with phmrun and needs no import")
    folder = dataset_dir(dataset)
    plan = _Plan()
    targets = {f"{split}.{file.role}": file.path for split, files in dataset.splits.items() for file in files}
    targets |= {split: files[0].path for split, files in dataset.splits.items() if len(files) == 1}
    for text in given:
        target, equals, rest = text.partition("=")
        # A file's name may contain an equals sign: an existing path is not read as SPLIT=PATH.
        if equals and not Path(text).is_file():
            if target not in targets:
                what = f"{dataset.name} has no file {target!r}"
                raise PhmrunError(what, where=f"{target}=…", valid=sorted(targets))
            plan.direct[targets[target]] = Source(_existing(rest))
        else:
            _recognise(dataset, _existing(text), plan)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / ".fetch.lock"):
            stage = Path(mkdtemp(prefix=".import.", dir=folder))
            try:
                staged = _staged(dataset, plan, stage)
                sizes = _checked(dataset, staged, force)
                return Imported(_placed(dataset, staged, force), sizes)
            finally:
                shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise disk_error(error, dataset) from error


def _existing(text: str) -> Path:
    """Return the path of an existing file, ``~`` expanded.

    Raises:
        PhmrunError: (exit 3) There is no such file.
    """
    path = Path(text).expanduser()
    if not path.is_file():
        raise PhmrunError("no such file", where=text, code=ExitCode.DATA)
    return path


def _recognise(dataset: Dataset, path: Path, plan: _Plan) -> None:
    """Add a file to the plan, in place, by its name.

    It is, in this order, a catalogued archive, a table of several splits, a catalogued file, or another archive that
    holds catalogued files or their members. Names are compared without folders and ``.gz``.

    Raises:
        PhmrunError: Nothing in the catalogue fits.
    """
    name, bare = path.name, _bare(path.name)
    sources, tables = {_bare(source): source for source in dataset.archives}, _tables(dataset)
    by_bare = {_bare(file.path): file.path for file in dataset.files}
    # An archive of the catalogue may be a single compressed file, which is recognized with and without its .gz.
    if name in dataset.archives or (bare in sources and not is_archive(path)):
        plan.archives[name if name in dataset.archives else sources[bare]] = path
        return
    if bare in tables:
        archive, member = tables[bare]
        plan.tables[archive] = Source(path, member)
        return
    if not is_archive(path):
        if bare not in by_bare:
            raise _unknown(dataset, path)
        plan.direct[by_bare[bare]] = Source(path)
        return
    wanted = by_bare | {
        _bare(part.member): file.path
        for file in dataset.files
        if not file.assembled
        for part in file.parts
        if part.member
    }
    sources_inside = {
        wanted[_bare(member)]: Source(path, member) for member in members(path) if _bare(member) in wanted
    }
    if not sources_inside:
        raise _unknown(dataset, path)
    plan.direct |= sources_inside


def _tables(dataset: Dataset) -> dict[str, tuple[str, str]]:
    """Return tables of several splits: (archive, member) by file name.

    A column of such a table names each row's split.
    """
    parts = [part for file in dataset.files for part in file.parts if part.rows and part.member]
    return {PurePosixPath(str(part.member)).name: (part.archive, str(part.member)) for part in parts}


def _refuse_other_splits(dataset: Dataset, file: File, source: Source) -> None:
    """Check that a file holds no rows of other splits.

    Each row must have the catalogue's value in the column that names the split. A file without that column passes, as
    do files that the catalogue takes whole.

    Raises:
        PhmrunError: (exit 3) It does.
    """
    for column, value in dict(part.rows for part in file.parts if part.rows).items():
        with unpacked(source.path, source.member) as content:
            rows = (line.decode("utf-8", "replace").rstrip("\r\n").split("\t") for line in lines_of(content))
            header = next(rows, [])
            place = header.index(column) if column in header else None
            others = place is not None and any(row[place : place + 1] != [value] for row in rows)
        if others:
            what = f"the file holds other splits beside {value}, according to its column {column}"
            command = f"phmrun data import {dataset.name} {' '.join(_tables(dataset))}"
            hint = f"Under its original name it is divided into splits: {command}"
            raise PhmrunError(what, where=str(source.path), hint=hint, code=ExitCode.DATA)


def _bare(path: str) -> str:
    """Return the file name of a path, without ``.gz``."""
    return PurePosixPath(path).name.removesuffix(".gz")


def _unknown(dataset: Dataset, path: Path) -> PhmrunError:
    """Return the error for a file that the catalogue does not know.

    The message says whether an archive holds no such file or a file has another name. The hint names a split.
    """
    holds = "holds no file" if is_archive(path) else "is not a file"
    split, files = next(iter(dataset.splits.items()))
    target = split if len(files) == 1 else f"{split}.{files[0].role}"
    return PhmrunError(
        f"the name does not fit: this {holds} of {dataset.name!r}",
        where=str(path),
        valid=[*dataset.archives, *(file.path for file in dataset.files)],
        hint=f"Name its split: phmrun data import {dataset.name} {target}={path.name}",
    )


def _staged(dataset: Dataset, plan: _Plan, stage: Path) -> _Staged:
    """Copy, extract and assemble all planned files below ``stage``.

    An assembled split is made only if the plan has all of its archives. Tables are packed into zip archives, which are
    added to the plan in place. Single files of the plan are copied last, and replace extracted ones. The result has the
    staged files, and the pairs left out by split.

    Raises:
        PhmrunError: (exit 3) An archive has a wrong checksum, a file is damaged, or the files make no split.
    """
    for name, path in plan.archives.items():
        expected = dataset.archives[name].sha256
        if expected and sha256_of(path) != expected:
            what = f"checksum mismatch: {name} has {expected}"
            raise PhmrunError(what, where=str(path), code=ExitCode.DATA)
    staged = _Staged(stage)
    for name, source in plan.tables.items():
        packed = stage / ".tables" / name
        packed.parent.mkdir(exist_ok=True)
        with (
            zipfile.ZipFile(packed, "w") as archive,
            unpacked(source.path, None) as content,
            archive.open(str(source.member), "w", force_zip64=True) as member,
        ):
            shutil.copyfileobj(content, member, CHUNK)
        plan.archives.setdefault(name, packed)
    for split, files in dataset.splits.items():
        if any(file.assembled for file in files):
            if {part.archive for file in files for part in file.parts} <= plan.archives.keys():
                staged.dropped[split] = build_split(dataset, split, plan.archives, stage)
                staged.paths |= {file.path: stage / file.path for file in files}
            continue
        for file in files:
            for part in file.parts:
                if part.archive in plan.archives:
                    extract(plan.archives[part.archive], part.member, stage / file.path, limit=file.bytes)
                    staged.paths[file.path] = stage / file.path
    by_path = {file.path: file for file in dataset.files}
    for name, source in plan.direct.items():
        _refuse_other_splits(dataset, by_path[name], source)
    staged.paths |= {path: _copied(source, by_path[path], stage) for path, source in plan.direct.items()}
    if not staged.paths:  # no split can be assembled from these archives alone
        lines = ["these files are not enough for a split; add to the same command, for"]
        for split, files in dataset.splits.items():
            needed = {part.archive for file in files for part in file.parts}
            if needed & plan.archives.keys():
                lines.append(f"  {split}: {', '.join(sorted(needed - plan.archives.keys()))}")
        raise PhmrunError("\n".join(lines), where=dataset.name, code=ExitCode.DATA)
    return staged


def _copied(source: Source, file: File, stage: Path) -> Path:
    """Copy one file into ``stage``; return the copy's path.

    It is compressed if the source or the catalogue's file is. A compressed source of a plain file gets the ending
    ``.gz``.

    Raises:
        PhmrunError: (exit 3) The catalogue has a checksum of the compressed file, and the source is not compressed.
    """
    with opened(source.path, source.member) as handle, ExitStack() as stack:
        head = handle.read(CHUNK)
        packed = head.startswith(GZIP_MAGIC)
        wants_packed = file.path.endswith(".gz")
        if wants_packed and not packed and file.sha256 is not None:
            what = f"the catalogue lists the compressed file {file.path}, with a checksum"
            raise PhmrunError(what, where=str(source.path), hint="Import the compressed file.", code=ExitCode.DATA)
        destination = stage / (f"{file.path}.gz" if packed and not wants_packed else file.path)
        temporary = stack.enter_context(replacing(destination))
        output: IO[bytes] = stack.enter_context(temporary.open("wb"))
        if wants_packed and not packed:
            # No name and time in the gzip header: the same text gives the same bytes and checksum.
            packer = gzip.GzipFile(filename="", fileobj=output, mode="wb", mtime=0)
            output = cast(IO[bytes], stack.enter_context(packer))
        output.write(head)
        shutil.copyfileobj(handle, output, CHUNK)
    return destination


def _checked(dataset: Dataset, staged: _Staged, force: bool) -> dict[str, dict[str, int]]:
    """Check checksums and counts of the splits with staged files.

    Files of these splits that are already in place are counted, too.

    Returns:
        Counts by unit of each split that is now complete.

    Raises:
        PhmrunError: (exit 3) A checksum or, without ``force``, a count differs, or a file is of another format.
    """
    sizes: dict[str, dict[str, int]] = {}
    for split, files in dataset.splits.items():
        new = [file for file in files if file.path in staged.paths]
        if not new:
            continue
        for file in new:
            if file.sha256 and content_sha256(staged.paths[file.path], file) != file.sha256:
                what = f"{file.path} does not have the catalogue's checksum {file.sha256}: damaged, or another version"
                hint = "To train on your own files, see the data options of phmrun train."
                raise PhmrunError(what, where=f"{dataset.name} {split}", hint=hint, code=ExitCode.DATA)
        paths = {file.role: staged.paths.get(file.path) or find(dataset, file) for file in files}
        complete = {role: path for role, path in paths.items() if path is not None}
        try:
            counts = count(dataset, split, complete)
        except PhmrunError as error:  # name the file without the staging folder
            error.where = error.where and error.where.replace(f"{staged.folder}{os.sep}", "")
            error.what = error.what.replace(f"{staged.folder}{os.sep}", "")
            raise
        if len(complete) == len(files):
            sizes[split] = counts
        for counted in compare(dataset, split, counts, left_out=staged.dropped.get(split)):
            if counted.verdict in ("too few", "more than published") and not force:
                what = f"{split} has {counted.found:,} {counted.unit} instead of the published {counted.published:,}"
                why = "It is truncated" if counted.verdict == "too few" else "It holds more than this split"
                hint = f"{why}, or is another version. To import it anyway: --force"
                raise PhmrunError(what, where=dataset.name, hint=hint, code=ExitCode.DATA)
    return sizes


def _placed(dataset: Dataset, staged: _Staged, force: bool) -> list[Path]:
    """Move the staged files into place.

    Return the paths of those that are new. Files with the same content stay. A file that is replaced under another
    ending is removed. Missing checksums and pairs left out are recorded beside the data.

    Raises:
        PhmrunError: (exit 3) Another file exists, and ``force`` is not set; nothing is moved.
    """
    by_path = {file.path: file for file in dataset.files}
    digests = {name: content_sha256(path, by_path[name]) for name, path in staged.paths.items()}
    moves: list[str] = []
    for name, digest in digests.items():
        there = find(dataset, by_path[name])
        if there is None or content_sha256(there, by_path[name]) != digest:
            if there is not None and not force:
                what, hint = "another file exists already", "To replace it: --force"
                raise PhmrunError(what, where=str(there), hint=hint, code=ExitCode.DATA)
            moves.append(name)
    # All files are compared before the first one is moved, so that an error changes nothing.
    placed = []
    for name in moves:
        path, there = staged.paths[name], find(dataset, by_path[name])
        target = dataset_dir(dataset) / path.relative_to(staged.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        if there is not None and there != target:
            there.unlink()
        placed.append(target)
    for name, digest in digests.items():  # also of files that an import placed before it was interrupted
        if by_path[name].sha256 is None and recorded_checksums(dataset).get(name) != digest:
            write_record(dataset, name, digest)
    for split, left_out in staged.dropped.items():
        write_dropped(dataset, split, left_out)
    return placed
