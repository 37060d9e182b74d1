"""Brings a dataset into the data directory: every file verified before it takes its place, nothing half-written."""

import errno
import logging
from collections.abc import Sequence
from pathlib import Path

import filelock

from phmrun.datasets.archives import extract
from phmrun.datasets.assembly import assemble
from phmrun.datasets.dataset import Dataset, File, Remote
from phmrun.datasets.download import PAUSE, ResumingDownload
from phmrun.datasets.locations import (
    Check,
    by_hand,
    check,
    dataset_dir,
    find,
    recorded,
    wanted_splits,
    write_dropped,
    write_record,
)
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of
from phmrun.progress import note, progress


def fetch(
    dataset: Dataset, *, splits: Sequence[str] | None = None, force: bool = False, pause: float = PAUSE
) -> list[Path]:
    """Downloads what is not there, from the first address that works, and compares checksums.

    Args:
        dataset: The catalogue's entry.
        splits: Only these; None: all.
        force: Download again what is there with a wrong checksum, instead of refusing.
        pause: Seconds before the second try at an address.

    Returns:
        The files that were brought; empty if all were there.

    Raises:
        PhmrunError: There is no split of that name (exit 2). A file cannot be had or has a wrong checksum, or the disk
            is full; the message says how to bring the files by hand (exit 3).
    """
    chosen = wanted_splits(dataset, splits)
    if dataset.generated:
        return []
    folder = dataset_dir(dataset)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _wanted(dataset, chosen, force):
            return []
        with filelock.FileLock(folder / ".fetch.lock"):
            wanted = _wanted(dataset, chosen, force)  # another process may have brought them meanwhile
            brought = [path for split, files in wanted.items() for path in _bring(dataset, split, files, pause)]
            _clean(dataset)
            return brought
    except OSError as error:
        raise disk_error(error, dataset) from error


def _wanted(dataset: Dataset, splits: Sequence[str], force: bool) -> dict[str, list[File]]:
    """The files to bring, by split; one with a wrong checksum is an error unless it may be replaced."""
    record = recorded(dataset)
    wanted: dict[str, list[File]] = {}
    seen = set()
    for split in splits:
        for file in dataset.splits[split]:
            if file.path in seen:
                continue
            seen.add(file.path)
            state = check(dataset, file, record)
            if state is Check.WRONG and not force:
                raise PhmrunError(
                    "the file has not the checksum that it should",
                    where=str(find(dataset, file)),
                    hint=f"To replace it: phmrun data fetch {dataset.name} --force",
                    code=ExitCode.DATA,
                )
            if state in (Check.WRONG, Check.MISSING):
                wanted.setdefault(split, []).append(file)
    return wanted


def _bring(dataset: Dataset, split: str, wanted: Sequence[File], pause: float) -> list[Path]:
    """Puts the wanted files of a split into their places; what is assembled comes with its other sides."""
    folder = dataset_dir(dataset)
    files = list(wanted)
    if any(file.assembled for file in wanted):
        files = list(dataset.splits[split])
        archives = {name: _archive(dataset, name, pause) for file in files for name in _archives_of(file)}
        write_dropped(dataset, split, build_split(dataset, split, archives, folder))
    for file in files:
        path = folder / file.path
        if not file.parts:
            _download(dataset, file, pause)
        elif not file.assembled:
            part = file.parts[0]
            archive = _archive(dataset, part.archive, pause)
            _extract(dataset, archive, part.member, file)
        if path.with_name(f"{path.name}.gz").is_file():
            path.with_name(f"{path.name}.gz").unlink()  # it was wrong, and replaced by force
        if file.sha256 is None:
            write_record(dataset, file.path, sha256_of(path))
            note(f"{file.path}: no checksum could be verified; this one is recorded and compared from now on")
    return [folder / file.path for file in files]


def build_split(dataset: Dataset, split: str, archives: dict[str, Path], folder: Path) -> int:
    """Assembles the files of a split below ``folder`` out of its archives.

    Returns:
        How many pairs were left out because a side is empty or unreadable.

    Raises:
        PhmrunError: (exit 3) An archive is damaged, or holds fewer pairs than its owners say that there are.
    """
    aligned = dataset.format == "parallel"
    label = f"putting {dataset.name} {split} together"
    kept, dropped = assemble(folder, dataset.splits[split], archives, aligned=aligned, label=label)
    published = dataset.sizes.get(split, {}).get("pairs", 0)
    if aligned and kept + dropped < published:
        for file in dataset.splits[split]:
            (folder / file.path).unlink(missing_ok=True)
        raise PhmrunError(
            f"there are {kept + dropped:,} pairs where there should be {published:,}: the download is not complete",
            where=f"{dataset.name} {split}",
            code=ExitCode.DATA,
        )
    if dropped:
        note(f"{dataset.name} {split}: {kept:,} pairs; {dropped:,} with an empty or unreadable side were left out")
    return dropped


def _archives_of(file: File) -> list[str]:
    return list(dict.fromkeys(part.archive for part in file.parts))


def _archive(dataset: Dataset, name: str, pause: float) -> Path:
    """Where an archive lies; downloaded if it is not there or not right."""
    archive = dataset.archives[name]
    if check(dataset, archive, recorded(dataset)) in (Check.MISSING, Check.WRONG):
        _download(dataset, archive, pause)
    return dataset_dir(dataset) / archive.path


def _extract(dataset: Dataset, archive: Path, member: str | None, file: File) -> None:
    """Unpacks one file and compares its checksum; an archive that is no good is not kept for the next time."""
    path = dataset_dir(dataset) / file.path
    try:
        extract(archive, member, path, limit=file.bytes)
    except PhmrunError:
        if dataset.archives[file.parts[0].archive].sha256 is None:
            archive.unlink(missing_ok=True)
        raise
    if file.sha256 is not None and (found := sha256_of(path)) != file.sha256:
        path.unlink()
        what = f"unpacked, it has the checksum {found}, not {file.sha256}; it was removed"
        raise PhmrunError(what, where=str(path), code=ExitCode.DATA)


def _download(dataset: Dataset, remote: Remote, pause: float) -> None:
    """Tries the addresses one after the other until one gives the right file."""
    folder = dataset_dir(dataset)
    failures = [] if remote.urls else ["  there is no address to fetch it from"]
    for url in remote.urls:
        failure = _try(url, remote, folder, pause)
        if failure is None:
            return
        failures.append(f"  {url}: {failure}")
    raise PhmrunError(
        f"{remote.path} of {dataset.name!r} could not be downloaded:\n" + "\n".join(failures),
        hint=by_hand(dataset, _absent(dataset)),
        code=ExitCode.DATA,
    )


def _try(url: str, remote: Remote, folder: Path, pause: float) -> str | None:
    """Downloads one address through pooch; returns why it failed, or None."""
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.ERROR)
    path = folder / remote.path
    part = path.with_name(f".{path.name}.part")
    if remote.sha256 is None:
        part.unlink(missing_ok=True)  # without a checksum, nothing would tell a file joined from two versions
        path.unlink(missing_ok=True)  # nor would pooch replace what is there
    known = None if remote.sha256 is None else f"sha256:{remote.sha256}"
    for _ in range(2):
        with progress(f"fetching {remote.path}", remote.bytes, "bytes") as advance:
            download = ResumingDownload(part, advance=advance, pause=pause, size=remote.bytes)
            try:
                pooch.retrieve(url, known, fname=path.name, path=path.parent, downloader=download)
            except requests.RequestException as error:
                if remote.sha256 is None:
                    part.unlink(missing_ok=True)  # nothing could go on from it
                return str(error)
            except ValueError:
                if not download.resumed:
                    return "what it sends has another checksum than the catalogue's"
            else:
                return None
    return "what it sends has another checksum than the catalogue's"


def _absent(dataset: Dataset) -> Sequence[File]:
    return [file for file in dataset.files if find(dataset, file) is None]


def disk_error(error: OSError, dataset: Dataset) -> PhmrunError:
    """An error of the file system, in the user's terms."""
    folder = dataset_dir(dataset)
    what = f"the data directory cannot be written: {error.strerror or error}"
    hint = "Set PHMRUN_DATA to a directory that can be written."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "there is no space left on the disk; what has arrived is kept, and the same command continues"
        hint = "Free some space, or set PHMRUN_DATA to a directory on another disk."
    return PhmrunError(what, where=str(folder), hint=hint, code=ExitCode.DATA)


def _clean(dataset: Dataset) -> None:
    """Removes what the files were taken out of, once all that was wanted is there."""
    folder = dataset_dir(dataset)
    for archive in dataset.archives.values():
        (folder / archive.path).unlink(missing_ok=True)
