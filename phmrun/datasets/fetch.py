"""Verified download of datasets into the data directory, by pooch.

A file takes its place only after its checksum is verified. Connections use verified TLS.
"""

import errno
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from phmrun.datasets.assembly import assemble, extract
from phmrun.datasets.catalogue import Dataset, File, Remote
from phmrun.datasets.locations import (
    DROPPED,
    RECORD,
    Check,
    by_hand,
    check,
    content_sha256,
    dataset_dir,
    find,
    recorded,
    wanted_splits,
    write_record,
)
from phmrun.errors import PhmrunError, data_error
from phmrun.files import file_lock, replacing, sha256_of
from phmrun.progress import note

TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two pieces of data
TRIES = 3  # attempts per address
PAUSE = 1.0  # seconds before the second attempt, doubled before each further one


def fetch(dataset: Dataset, *, splits: Sequence[str] | None = None, force: bool = False) -> list[Path]:
    """Download missing files, and verify their checksums.

    Each comes from the first address that works. Archives are removed once their files are extracted; those without
    an address, once all files of the dataset are here. A checksum that the catalogue lacks is recorded, and compared
    from then on.

    Args:
        dataset: The dataset.
        splits: Splits to download; None for all.
        force: Replace files with a wrong checksum instead of raising an error.

    Returns:
        Paths of the downloaded files; empty if all were present.

    Raises:
        PhmrunError: The dataset has no such split (exit 2); a file cannot be downloaded or has a wrong checksum, or
            the disk is full (exit 3). The message contains instructions for a manual download.
    """
    chosen, folder = wanted_splits(dataset, splits), dataset_dir(dataset)
    files = {file.path: file for split in chosen for file in dataset.splits[split]}
    archives = [folder / archive.path for archive in dataset.archives.values()]
    # An interruption may leave an archive whose files are all here.
    is_left = any(path.exists() for path in archives) and all(find(dataset, file) for file in dataset.files)
    if not _wanted(dataset, files, force) and not is_left:
        return []
    with _locked(dataset):
        wanted = _wanted(dataset, files, force)  # another process may have downloaded them meanwhile
        brought: list[File] = []
        for split in chosen:
            brought += _bring(dataset, split, [file for file in dataset.splits[split] if wanted.pop(file.path, None)])
        whole = all(find(dataset, file) for file in dataset.files)
        for archive, path in zip(dataset.archives.values(), archives, strict=True):
            if whole or archive.urls:  # one that was brought by hand is kept for other splits
                path.unlink(missing_ok=True)
    return [folder / file.path for file in brought]


@contextmanager
def _locked(dataset: Dataset) -> Iterator[None]:
    """Make and lock the dataset's folder.

    Raises:
        PhmrunError: (exit 3) A file or folder cannot be written, or the disk is full.
    """
    folder = dataset_dir(dataset)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / ".fetch.lock"):
            yield
    except OSError as error:
        occupied = error.errno in (errno.EEXIST, errno.EISDIR, errno.ENOTDIR)
        advice = "Remove or rename what is there" if occupied else "Free some space"
        hint = f"{advice}, or set PHMRUN_DATA to a directory that can be written."
        where = str(error.filename or folder)
        raise data_error(f"this cannot be written: {error.strerror or error}", where, hint) from error


def _wanted(dataset: Dataset, files: Mapping[str, File], force: bool) -> dict[str, File]:
    """Return the files to download, by path.

    They are missing, or have a wrong checksum and ``force`` is set.

    Raises:
        PhmrunError: (exit 3) A checksum is wrong, and ``force`` is not set; or a folder, pipe or broken link has the
            path of a file.
    """
    record = recorded(dataset, RECORD)
    states = {path: check(dataset, file, record) for path, file in files.items()}
    for path, state in states.items():
        if state is Check.MISSING and os.path.lexists(place := dataset_dir(dataset) / path):
            hint = f"Remove or rename it, then: phmrun data fetch {dataset.name}"
            raise data_error("this is not a file", place, hint)
        if state is Check.WRONG and not force:
            hint = f"To replace it: phmrun data fetch {dataset.name} --force"
            raise data_error("checksum mismatch", find(dataset, files[path]), hint)
    return {path: file for path, file in files.items() if states[path] in (Check.WRONG, Check.MISSING)}


def _bring(dataset: Dataset, split: str, wanted: list[File]) -> list[File]:
    """Download files of a split, or make those of its files anew that are parts of archives.

    Return the new files. Pairs left out and unknown checksums are recorded; copies with the ending ``.gz`` are removed.

    Raises:
        PhmrunError: (exit 3) A file cannot be downloaded, or is damaged. Archives without a known checksum are then
            removed, so that they are downloaded again.
    """
    folder = dataset_dir(dataset)
    brought = [file for file in wanted if not file.parts]
    for file in brought:
        _download(dataset, file)
    if len(brought) < len(wanted):
        packed = [file for file in dataset.splits[split] if file.parts]
        remotes = {part.archive: dataset.archives[part.archive] for file in packed for part in file.parts}
        for remote in remotes.values():
            if check(dataset, remote, {}) in (Check.MISSING, Check.WRONG):
                _download(dataset, remote)
        archives = {name: folder / remote.path for name, remote in remotes.items()}
        try:
            dropped = _build_split(dataset, split, archives)
        except PhmrunError:
            for name, remote in remotes.items():
                if remote.sha256 is None and remote.urls:
                    archives[name].unlink(missing_ok=True)
            raise
        if dropped is not None:
            write_record(dataset, DROPPED, split, dropped)
        brought += packed
    for file in brought:
        (folder / f"{file.path}.gz").unlink(missing_ok=True)  # the file with a wrong checksum
        if file.sha256 is None:
            write_record(dataset, RECORD, file.path, content_sha256(folder / file.path, file))
    return brought


def _build_split(dataset: Dataset, split: str, archives: Mapping[str, Path]) -> int | None:
    """Extract or assemble the files of a split from its archives.

    An incomplete result is removed. A note tells how many pairs were left out.

    Returns:
        Number of pairs left out because a side is empty or unreadable; None if nothing is assembled.

    Raises:
        PhmrunError: (exit 3) An archive is damaged, a checksum is wrong, or there are fewer pairs of parallel text than
            published.
    """
    folder = dataset_dir(dataset)
    files = [file for file in dataset.splits[split] if file.parts]
    if not any(file.assembled for file in files):
        for file in files:
            path, part = folder / file.path, file.parts[0]
            extract(archives[part.archive], part.member, path, limit=file.bytes)
            if file.sha256 is not None and (checksum := sha256_of(path)) != file.sha256:
                path.unlink()
                what = f"the extracted file has the checksum {checksum} instead of {file.sha256}; it was removed"
                raise data_error(what, path)
        return None
    aligned = dataset.format == "parallel"
    label = f"assembling {dataset.name} {split}"
    kept, dropped = assemble(folder, files, archives, aligned=aligned, label=label)
    published = dataset.sizes.get(split, {}).get("pairs", 0)
    if aligned and kept + dropped < published:
        for file in files:
            (folder / file.path).unlink(missing_ok=True)
        what = f"{kept + dropped:,} pairs instead of the published {published:,}: the download is incomplete"
        raise data_error(what, f"{dataset.name} {split}")
    if dropped:
        note(f"{dataset.name} {split}: {kept:,} pairs; {dropped:,} with an empty or unreadable side were left out")
    return dropped


def _download(dataset: Dataset, remote: Remote) -> None:
    """Download a file from the first address that delivers the right one.

    Raises:
        PhmrunError: (exit 3) None does; the error lists the reasons and how to get the file by hand.
    """
    failures = [] if remote.urls else ["  the catalogue has no address for it"]
    if remote.sha256 and (here := find(dataset, remote)):
        checksum = content_sha256(here, remote)
        failures.insert(0, f"  replace {here}: its checksum is {checksum} instead of {remote.sha256}")
    for url in remote.urls:
        failure = _try(url, remote, dataset_dir(dataset) / remote.path)
        if failure is None:
            return
        failures.append(f"  {url}: {failure}")
    what = "\n".join([f"{remote.path} of {dataset.name!r} could not be downloaded:", *failures])
    hint = by_hand(dataset, [file for file in dataset.files if file == remote or find(dataset, file) is None])
    raise data_error(what, None, hint)


def _try(url: str, remote: Remote, path: Path) -> str | None:
    """Download from one address through pooch, in up to ``TRIES`` attempts.

    Return the reason of a failure, or None for success. What the server refuses is asked for once. An existing file
    stays until the new one is whole.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.ERROR)
    checksum = None if remote.sha256 is None else f"sha256:{remote.sha256}"
    headers = {"Accept-Encoding": "identity", "User-Agent": "phmrun"}
    bar = sys.stderr.isatty()  # of tqdm
    hooks = {"response": _require_https}
    download = pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT, headers=headers, hooks=hooks)
    note(f"fetching {url}" + ("" if remote.bytes is None else f" ({remote.bytes:,} bytes)"))
    reason = ""
    for attempt in range(TRIES):
        time.sleep(PAUSE * 2 ** (attempt - 1) if attempt else 0.0)
        try:
            with replacing(path) as fresh:  # without a known checksum, pooch would keep an existing file
                pooch.retrieve(url, checksum, fresh.name, fresh.parent, downloader=download)
            return None
        except requests.RequestException as error:
            reason = str(error)
            if error.response is not None and error.response.status_code < 500:
                break
        except ValueError:  # of pooch
            return "the downloaded file's checksum is not the catalogue's"
    return reason


def _require_https(response: Any, *_: Any, **__: Any) -> None:
    """Check that a response does not redirect from https to another scheme.

    Raises:
        requests.RequestException: It does; the error has the response.
    """
    import requests

    target = urljoin(response.url, response.headers.get("Location", ""))
    if response.is_redirect and response.url.startswith("https:") and not target.lower().startswith("https:"):
        raise requests.RequestException(f"the server redirects from https to {target}", response=response)
