"""Brings a dataset into the data directory: every file verified before it takes its place, nothing half-written."""

import errno
import logging
from collections.abc import Sequence
from pathlib import Path

import filelock

from phmrun.datasets.archives import extract
from phmrun.datasets.catalogue import Dataset, File, Remote
from phmrun.datasets.download import PAUSE, ResumingDownload
from phmrun.datasets.locations import Check, by_hand, check, dataset_dir, recorded, write_record
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of
from phmrun.progress import note, progress


def fetch(dataset: Dataset, *, force: bool = False, pause: float = PAUSE) -> list[Path]:
    """Downloads what is not there, from the first address that works, and compares checksums.

    Args:
        dataset: The catalogue's entry.
        force: Download again what is there with a wrong checksum, instead of refusing.
        pause: Seconds before the second try at an address.

    Returns:
        The files that were brought; empty if all were there.

    Raises:
        PhmrunError: (exit 3) A file cannot be had or has a wrong checksum, or the disk is full; the message says how to
            bring the files by hand.
    """
    folder = dataset_dir(dataset)
    if dataset.generated:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = _wanted(dataset, force)
        if not wanted:
            return []
        with filelock.FileLock(folder / ".fetch.lock"):
            wanted = _wanted(dataset, force)  # another process may have brought them meanwhile
            return [_bring(dataset, file, pause) for file in wanted] if wanted else []
    except OSError as error:
        raise _disk(error, dataset) from error
    finally:
        _clean(dataset)


def _wanted(dataset: Dataset, force: bool) -> list[File]:
    """The files to bring; one with a wrong checksum is an error unless it may be replaced."""
    folder = dataset_dir(dataset)
    record = recorded(dataset)
    wanted = []
    for file in dataset.files:
        state = check(folder / file.path, file, record)
        if state is Check.WRONG and not force:
            raise PhmrunError(
                "the file has not the checksum that it should",
                where=str(folder / file.path),
                hint=f"To replace it: phmrun data fetch {dataset.name} --force",
                code=ExitCode.DATA,
            )
        if state in (Check.WRONG, Check.MISSING):
            wanted.append(file)
    return wanted


def _bring(dataset: Dataset, file: File, pause: float) -> Path:
    """Downloads one file, or the archive that it is in (once), and puts it into its place."""
    folder = dataset_dir(dataset)
    path = folder / file.path
    if file.archive is None:
        _download(dataset, file, pause)
    else:
        archive = dataset.archives[file.archive]
        if check(folder / archive.path, archive, recorded(dataset)) in (Check.MISSING, Check.WRONG):
            _download(dataset, archive, pause)
        extract(folder / archive.path, file.member or file.path, path, limit=file.bytes)
        _compare(path, file)
    if file.sha256 is None:
        write_record(dataset, file.path, sha256_of(path))
        note(f"{file.path}: its owners publish no checksum; this one is recorded and compared from now on")
    return path


def _compare(path: Path, file: File) -> None:
    """Removes an unpacked file whose checksum is wrong, and says so."""
    if file.sha256 is not None and (found := sha256_of(path)) != file.sha256:
        path.unlink()
        what = f"unpacked, it has the checksum {found}, not {file.sha256}; it was removed"
        raise PhmrunError(what, where=str(path), code=ExitCode.DATA)


def _download(dataset: Dataset, remote: Remote, pause: float) -> None:
    """Tries the addresses one after the other until one gives the right file."""
    folder = dataset_dir(dataset)
    failures = []
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
            download = ResumingDownload(part, advance=advance, pause=pause)
            try:
                pooch.retrieve(url, known, fname=path.name, path=path.parent, downloader=download)
            except requests.RequestException as error:
                return str(error)
            except ValueError:
                if not download.resumed:
                    return "what it sends has another checksum than the catalogue's"
            else:
                return None
    return "what it sends has another checksum than the catalogue's"


def _absent(dataset: Dataset) -> Sequence[File]:
    folder = dataset_dir(dataset)
    return [file for file in dataset.files if not (folder / file.path).is_file()]


def _disk(error: OSError, dataset: Dataset) -> PhmrunError:
    """An error of the file system, in the user's terms."""
    folder = dataset_dir(dataset)
    what = f"the data directory cannot be written: {error.strerror or error}"
    hint = "Set PHMRUN_DATA to a directory that can be written."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "there is no space left on the disk; what has arrived is kept, and the same command continues"
        hint = "Free some space, or set PHMRUN_DATA to a directory on another disk."
    return PhmrunError(what, where=str(folder), hint=hint, code=ExitCode.DATA)


def _clean(dataset: Dataset) -> None:
    """Removes archives once all that was wanted from them is there."""
    folder = dataset_dir(dataset)
    if _absent(dataset):
        return
    for archive in dataset.archives.values():
        (folder / archive.path).unlink(missing_ok=True)
