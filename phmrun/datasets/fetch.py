"""Verified, resumable download of datasets into the data directory.

A file takes its place only after its checksum is verified. Connections use verified TLS. A partial download stays in a
``.part`` file, and a later attempt or process continues it with an HTTP range request.
"""

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from phmrun.datasets.archives import extract, largest, too_much
from phmrun.datasets.assembly import assemble
from phmrun.datasets.catalogue import Dataset, File, Remote
from phmrun.datasets.locations import (
    Check,
    by_hand,
    check,
    content_sha256,
    dataset_dir,
    find,
    recorded_checksums,
    wanted_splits,
    write_dropped,
    write_record,
)
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import file_lock, sha256_of
from phmrun.progress import note, progress

CHUNK = 1 << 16
TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two pieces of data
TRIES = 3  # attempts per address; each continues the previous one
PAUSE = 1.0  # seconds before the second attempt, doubled before each further one


def fetch(
    dataset: Dataset, *, splits: Sequence[str] | None = None, force: bool = False, pause: float = PAUSE
) -> list[Path]:
    """Download missing files, and verify their checksums.

    Each comes from the first address that works. Archives are removed once their files are extracted. A present file
    whose checksum neither the catalogue nor the record has is recorded, if the folder can be written.

    Args:
        dataset: The dataset.
        splits: Splits to download; None for all.
        force: Replace files with a wrong checksum instead of raising an error.
        pause: Seconds to wait before the second attempt at an address.

    Returns:
        Paths of the downloaded files; empty if all were present.

    Raises:
        PhmrunError: The dataset has no such split (exit 2); a file cannot be downloaded or has a wrong checksum, or
            the disk is full (exit 3). The message contains instructions for a manual download.
    """
    chosen = wanted_splits(dataset, splits)
    if dataset.generated:
        return []
    folder = dataset_dir(dataset)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        left = _unrecorded(dataset, chosen) or any((folder / file.path).exists() for file in dataset.archives.values())
        if not _wanted(dataset, chosen, force) and not (left and os.access(folder, os.W_OK)):
            return []
        with file_lock(folder / ".fetch.lock"):
            wanted = _wanted(dataset, chosen, force)  # another process may have downloaded them meanwhile
            brought = [path for split, files in wanted.items() for path in _bring(dataset, split, files, pause)]
            for archive in dataset.archives.values():  # no longer needed once their files are extracted
                (folder / archive.path).unlink(missing_ok=True)
            for file in _unrecorded(dataset, chosen):  # placed before an earlier download was interrupted
                _record(dataset, file)
            return brought
    except OSError as error:
        raise disk_error(error, dataset) from error


def _wanted(dataset: Dataset, splits: Sequence[str], force: bool) -> dict[str, list[File]]:
    """Return the files to download, by split.

    They are missing, or have a wrong checksum and ``force`` is set. Each path occurs once; splits without any are left
    out.

    Raises:
        PhmrunError: (exit 3) A checksum is wrong, and ``force`` is not set.
    """
    record = recorded_checksums(dataset)
    wanted: dict[str, list[File]] = {}
    seen = set()
    for split in splits:
        for file in dataset.splits[split]:
            if file.path in seen:
                continue
            seen.add(file.path)
            state = check(dataset, file, record)
            if state is Check.WRONG and not force:
                hint = f"To replace it: phmrun data fetch {dataset.name} --force"
                what, where = "checksum mismatch", str(find(dataset, file))
                raise PhmrunError(what, where=where, hint=hint, code=ExitCode.DATA)
            if state in (Check.WRONG, Check.MISSING):
                wanted.setdefault(split, []).append(file)
    return wanted


def _bring(dataset: Dataset, split: str, wanted: Sequence[File], pause: float) -> list[Path]:
    """Download, extract or assemble files of a split.

    Return the paths of the new files. If one is assembled, the files of all roles are made anew, and the pairs left out
    are recorded. A copy of a file with the ending ``.gz`` is removed. Checksums that the catalogue lacks are recorded.

    Raises:
        PhmrunError: (exit 3) A file cannot be downloaded, or is damaged.
    """
    folder = dataset_dir(dataset)
    files = list(wanted)
    if any(file.assembled for file in wanted):
        files = list(dataset.splits[split])
        names = dict.fromkeys(part.archive for file in files for part in file.parts)
        archives = {name: _archive(dataset, name, pause) for name in names}
        write_dropped(dataset, split, build_split(dataset, split, archives, folder))
    for file in files:
        path = folder / file.path
        if not file.parts:
            _download(dataset, file, pause)
        elif not file.assembled:
            _extract(dataset, file, _archive(dataset, file.parts[0].archive, pause))
        path.with_name(f"{path.name}.gz").unlink(missing_ok=True)  # the file with a wrong checksum
        if file.sha256 is None:
            _record(dataset, file)
    return [folder / file.path for file in files]


def _unrecorded(dataset: Dataset, splits: Sequence[str]) -> list[File]:
    """Return the present files of these splits without any known checksum.

    Neither the catalogue nor the record has it.
    """
    record = recorded_checksums(dataset)
    files = {file.path: file for split in splits for file in dataset.splits[split]}
    return [file for file in files.values() if file.sha256 is None and file.path not in record and find(dataset, file)]


def _record(dataset: Dataset, file: File) -> None:
    """Record a present file's checksum, and print a note.

    It is written to the dataset's ``.checksums.json``.

    Raises:
        PhmrunError: (exit 3) The file is stored with ``.gz``, and its compressed data are damaged.
    """
    path = find(dataset, file) or dataset_dir(dataset) / file.path
    write_record(dataset, file.path, content_sha256(path, file))
    note(f"{file.path}: the catalogue has no checksum; the file's is recorded and compared from now on")


def build_split(dataset: Dataset, split: str, archives: dict[str, Path], folder: Path) -> int:
    """Assemble the files of a split from its archives, below ``folder``.

    An incomplete result is removed. A note tells how many pairs were left out.

    Returns:
        Number of pairs left out because a side is empty or unreadable.

    Raises:
        PhmrunError: (exit 3) An archive is damaged, or holds fewer pairs of parallel text than published.
    """
    aligned = dataset.format == "parallel"
    label = f"assembling {dataset.name} {split}"
    kept, dropped = assemble(folder, dataset.splits[split], archives, aligned=aligned, label=label)
    published = dataset.sizes.get(split, {}).get("pairs", 0)
    if aligned and kept + dropped < published:
        for file in dataset.splits[split]:
            (folder / file.path).unlink(missing_ok=True)
        what = f"{kept + dropped:,} pairs instead of the published {published:,}: the download is incomplete"
        raise PhmrunError(what, where=f"{dataset.name} {split}", code=ExitCode.DATA)
    if dropped:
        note(f"{dataset.name} {split}: {kept:,} pairs; {dropped:,} with an empty or unreadable side were left out")
    return dropped


def _archive(dataset: Dataset, name: str, pause: float) -> Path:
    """Return the path of an archive.

    Download it if missing or its checksum is wrong.
    """
    archive = dataset.archives[name]
    if check(dataset, archive, recorded_checksums(dataset)) in (Check.MISSING, Check.WRONG):
        _download(dataset, archive, pause)
    return dataset_dir(dataset) / archive.path


def _extract(dataset: Dataset, file: File, archive: Path) -> None:
    """Extract one file into the dataset's folder and check its checksum.

    A damaged archive without a known checksum is removed, so that it is downloaded again.

    Raises:
        PhmrunError: (exit 3) The archive is damaged or the checksum is wrong; such a file is removed.
    """
    path, part = dataset_dir(dataset) / file.path, file.parts[0]
    try:
        extract(archive, part.member, path, limit=file.bytes)
    except PhmrunError:
        if dataset.archives[part.archive].sha256 is None:
            archive.unlink(missing_ok=True)
        raise
    if file.sha256 is not None and (checksum := sha256_of(path)) != file.sha256:
        path.unlink()
        what = f"the extracted file has the checksum {checksum} instead of {file.sha256}; it was removed"
        raise PhmrunError(what, where=str(path), code=ExitCode.DATA)


def _download(dataset: Dataset, remote: Remote, pause: float) -> None:
    """Download a file from the first address that delivers the right one.

    Raises:
        PhmrunError: (exit 3) None does; the error lists the reasons and how to get the file by hand.
    """
    failures = [] if remote.urls else ["  the catalogue has no address for it"]
    for url in remote.urls:
        failure = _try(url, remote, dataset_dir(dataset), pause)
        if failure is None:
            return
        failures.append(f"  {url}: {failure}")
    raise PhmrunError(
        f"{remote.path} of {dataset.name!r} could not be downloaded:\n" + "\n".join(failures),
        hint=by_hand(dataset, [file for file in dataset.files if find(dataset, file) is None]),
        code=ExitCode.DATA,
    )


def _try(url: str, remote: Remote, folder: Path, pause: float) -> str | None:
    """Download from one address through pooch.

    Return the reason of a failure, or None for success. A resumed file with a wrong checksum is downloaded once more
    from the start. Without a known checksum, an existing file and a partial one are removed first.
    """
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.ERROR)
    path = folder / remote.path
    part = path.with_name(f".{path.name}.part")
    if remote.sha256 is None:
        part.unlink(missing_ok=True)  # without a checksum, a file joined from two versions would go unnoticed
        path.unlink(missing_ok=True)  # pooch would not replace it
    checksum = None if remote.sha256 is None else f"sha256:{remote.sha256}"
    for _ in range(2):
        with progress(f"fetching {remote.path}", remote.bytes, "bytes") as advance:
            download = ResumingDownload(part, advance=advance, pause=pause, size=remote.bytes)
            try:
                pooch.retrieve(url, checksum, fname=path.name, path=path.parent, downloader=download)
            except requests.RequestException as error:
                if remote.sha256 is None:
                    part.unlink(missing_ok=True)  # it cannot be continued safely
                return str(error)
            except ValueError:
                if not download.resumed:  # a resumed file may be joined from two versions: start over once
                    break
            else:
                return None
    return "the downloaded file's checksum is not the catalogue's"


def disk_error(error: OSError, dataset: Dataset) -> PhmrunError:
    """Return the user error (exit 3) for a failed write of data.

    A full disk has its own message. The error names the dataset's folder.
    """
    what = f"the data directory cannot be written: {error.strerror or error}"
    hint = "Set PHMRUN_DATA to a directory that can be written."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "the disk is full; the partial download is kept, and the same command continues it"
        hint = "Free some space, or set PHMRUN_DATA to a directory on another disk."
    return PhmrunError(what, where=str(dataset_dir(dataset)), hint=hint, code=ExitCode.DATA)


class ResumingDownload:
    """Downloader for pooch that continues a partial file.

    Pooch verifies the complete one.

    Args:
        part: Path of the partial file.
        advance: Callback with the number of new bytes; called once with those already present.
        pause: Seconds before the second attempt, doubled before each further one.
        size: Expected size in bytes, which is the limit; None applies ``largest()``.
    """

    def __init__(
        self, part: Path, *, advance: Callable[[int], None], pause: float = PAUSE, size: int | None = None
    ) -> None:
        self.part, self.resumed = part, False
        self.limit, self._known = size or largest(), size is not None
        self._advance, self._pause, self._shown = advance, pause, 0

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Download ``url`` to ``output_file``; called by pooch.

        After a lost connection or a server error it tries again, up to ``TRIES`` times, from where it stopped.

        Raises:
            requests.RequestException: The server refused, or the last attempt failed.
            OSError: The disk is full or not writable.
        """
        import requests
        from urllib3.exceptions import HTTPError

        self.part.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(TRIES):
            if attempt:
                time.sleep(self._pause * 2 ** (attempt - 1))
            try:
                self._transfer(url)
            except (requests.ConnectionError, requests.Timeout, HTTPError) as error:
                # An invalid certificate stays invalid.
                if attempt == TRIES - 1 or isinstance(error, requests.exceptions.SSLError):
                    raise requests.ConnectionError(_reason(error)) from error
            except requests.HTTPError as error:
                status = 0 if error.response is None else error.response.status_code
                if attempt == TRIES - 1 or status < 500:
                    raise
            else:
                self.part.replace(output_file)
                return

    def _transfer(self, url: str) -> None:
        """Send one request, and append its data to ``part``.

        If the server does not continue with the range asked for, ``part`` is written from the start. It is removed if
        the server says that it is too long, or sends more than the limit.

        Raises:
            requests.RequestException: The server refuses, or sends more than the limit.
        """
        import requests

        have = self.part.stat().st_size if self.part.is_file() else 0
        headers = {"Accept-Encoding": "identity", "User-Agent": "phmrun"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with _session() as session, session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable and have:
                self.part.unlink()  # longer than the file: from another version
                raise requests.ConnectionError("the partial file belonged to another version and was removed")
            response.raise_for_status()
            span = response.headers.get("Content-Range", "")
            continues = response.status_code == requests.codes.partial_content and span.startswith(f"bytes {have}-")
            self.resumed = self.resumed or (continues and have > 0)
            self._show(have if continues else 0)
            with self.part.open("ab" if continues else "wb") as handle:
                # The raw stream: a server may declare a .gz file as an encoding, which must not be decoded.
                for piece in response.raw.stream(CHUNK, decode_content=False):
                    if self._shown + len(piece) > self.limit:
                        self.part.unlink()
                        raise requests.RequestException(f"the server sends {too_much(self.limit, self._known)}")
                    handle.write(piece)
                    self._show(self._shown + len(piece))
                handle.flush()
                os.fsync(handle.fileno())

    def _show(self, position: int) -> None:
        """Advance the progress to ``position`` bytes.

        It moves back if the server starts over.
        """
        self._advance(position - self._shown)
        self._shown = position


def _session() -> Any:
    """Return a session of requests that refuses redirects from https to http.

    Redirects within https, and from http, are followed.
    """
    import requests

    class Session(requests.Session):
        """Session that raises ``requests.RequestException`` for such a redirect."""

        def get_redirect_target(self, resp: requests.Response) -> str | None:
            """Return the target of a redirect, or None without one.

            Raises:
                requests.RequestException: It leads from https to another scheme.
            """
            target = super().get_redirect_target(resp)
            if target is not None and resp.url.startswith("https:"):
                reached = urljoin(resp.url, target)
                if not reached.lower().startswith("https:"):
                    raise requests.RequestException(f"the server redirects from https to {reached}")
            return target

    return Session()


def _reason(error: Exception) -> str:
    """Return the message of an error's innermost cause.

    The cause is its ``reason``, or else the first exception among its arguments. A leading object representation is
    removed.
    """
    inner: Any = error
    while isinstance(inner, Exception):
        error = inner
        inner = getattr(error, "reason", None) or next((arg for arg in error.args if isinstance(arg, Exception)), None)
    return re.sub(r"^(<[^>]*>|\w+\([^)]*\)): ", "", str(error))
