"""Brings a dataset into the data directory: every file verified before it takes its place, nothing half-written.

Addresses are read over verified TLS. What has arrived is kept in a ``.part`` file, from which a later try, or a later
process, continues with an HTTP range.
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

import filelock

from phmrun.datasets.archives import extract, largest, too_much
from phmrun.datasets.assembly import assemble
from phmrun.datasets.catalogue import Dataset, File, Remote
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

CHUNK = 1 << 16
TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two pieces of data
TRIES = 3  # tries at one address, each from where the last one stopped
PAUSE = 1.0  # seconds before the second try, doubled before each further one


def fetch(
    dataset: Dataset, *, splits: Sequence[str] | None = None, force: bool = False, pause: float = PAUSE
) -> list[Path]:
    """Downloads what is not there, from the first address that works, and compares checksums.

    ``force`` downloads again what is there with a wrong checksum, instead of refusing; ``pause`` is how long to wait
    (seconds) before the second try at an address.

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
            for archive in dataset.archives.values():  # what the files were taken out of
                (folder / archive.path).unlink(missing_ok=True)
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
                hint = f"To replace it: phmrun data fetch {dataset.name} --force"
                what, where = "the file has not the checksum that it should", str(find(dataset, file))
                raise PhmrunError(what, where=where, hint=hint, code=ExitCode.DATA)
            if state in (Check.WRONG, Check.MISSING):
                wanted.setdefault(split, []).append(file)
    return wanted


def _bring(dataset: Dataset, split: str, wanted: Sequence[File], pause: float) -> list[Path]:
    """Puts the wanted files of a split into their places; what is assembled comes with its other sides."""
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
        path.with_name(f"{path.name}.gz").unlink(missing_ok=True)  # it was wrong, and replaced by force
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
        what = f"there are {kept + dropped:,} pairs where there should be {published:,}: the download is not complete"
        raise PhmrunError(what, where=f"{dataset.name} {split}", code=ExitCode.DATA)
    if dropped:
        note(f"{dataset.name} {split}: {kept:,} pairs; {dropped:,} with an empty or unreadable side were left out")
    return dropped


def _archive(dataset: Dataset, name: str, pause: float) -> Path:
    """Where an archive lies; downloaded if it is not there or not right."""
    archive = dataset.archives[name]
    if check(dataset, archive, recorded(dataset)) in (Check.MISSING, Check.WRONG):
        _download(dataset, archive, pause)
    return dataset_dir(dataset) / archive.path


def _extract(dataset: Dataset, file: File, archive: Path) -> None:
    """Unpacks one file and compares its checksum; an archive that is no good is not kept for the next time."""
    path, part = dataset_dir(dataset) / file.path, file.parts[0]
    try:
        extract(archive, part.member, path, limit=file.bytes)
    except PhmrunError:
        if dataset.archives[part.archive].sha256 is None:
            archive.unlink(missing_ok=True)
        raise
    if file.sha256 is not None and (found := sha256_of(path)) != file.sha256:
        path.unlink()
        what = f"unpacked, it has the checksum {found}, not {file.sha256}; it was removed"
        raise PhmrunError(what, where=str(path), code=ExitCode.DATA)


def _download(dataset: Dataset, remote: Remote, pause: float) -> None:
    """Tries the addresses one after the other until one gives the right file."""
    failures = [] if remote.urls else ["  there is no address to fetch it from"]
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
                if not download.resumed:  # else it may be joined from two versions, and is tried from its beginning
                    break
            else:
                return None
    return "what it sends has another checksum than the catalogue's"


def disk_error(error: OSError, dataset: Dataset) -> PhmrunError:
    """An error of the file system, in the user's terms."""
    what = f"the data directory cannot be written: {error.strerror or error}"
    hint = "Set PHMRUN_DATA to a directory that can be written."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = "there is no space left on the disk; what has arrived is kept, and the same command continues"
        hint = "Free some space, or set PHMRUN_DATA to a directory on another disk."
    return PhmrunError(what, where=str(dataset_dir(dataset)), hint=hint, code=ExitCode.DATA)


class ResumingDownload:
    """Downloads to ``part``, continuing what is there, and hands the complete file to pooch, which verifies it.

    ``advance`` is told the bytes as they arrive, and those already there. No more are taken than the ``size`` that the
    catalogue knows, else than ``largest()``.
    """

    def __init__(
        self, part: Path, *, advance: Callable[[int], None], pause: float = PAUSE, size: int | None = None
    ) -> None:
        self.part, self.resumed = part, False
        self.limit, self._known = size or largest(), size is not None
        self._advance, self._pause, self._shown = advance, pause, 0

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Downloads ``url``; called by pooch.

        Raises:
            requests.RequestException: The server refuses, or the connection broke ``TRIES`` times.
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
                # A certificate that is not valid will not be so the next time.
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
        """One request, from the end of ``part`` on where the server can do that."""
        import requests

        have = self.part.stat().st_size if self.part.is_file() else 0
        headers = {"Accept-Encoding": "identity", "User-Agent": "phmrun"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with _session() as session, session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable and have:
                self.part.unlink()  # longer than the file: left from another version of it
                raise requests.ConnectionError("the partial file did not fit and was removed")
            response.raise_for_status()
            span = response.headers.get("Content-Range", "")
            continues = response.status_code == requests.codes.partial_content and span.startswith(f"bytes {have}-")
            self.resumed = self.resumed or (continues and have > 0)
            self._show(have if continues else 0)
            with self.part.open("ab" if continues else "wb") as handle:
                # The raw stream: a .gz file is not to be unpacked because a server calls it an encoding.
                for piece in response.raw.stream(CHUNK, decode_content=False):
                    if self._shown + len(piece) > self.limit:
                        self.part.unlink()
                        raise requests.RequestException(f"it sends {too_much(self.limit, self._known)}")
                    handle.write(piece)
                    self._show(self._shown + len(piece))
                handle.flush()
                os.fsync(handle.fileno())

    def _show(self, position: int) -> None:
        """Moves the progress to ``position`` bytes, back where a server starts over."""
        self._advance(position - self._shown)
        self._shown = position


def _session() -> Any:
    """A session of requests that goes from https nowhere but to https, at every step of a redirection."""
    import requests

    class Session(requests.Session):
        def get_redirect_target(self, resp: requests.Response) -> str | None:
            target = super().get_redirect_target(resp)
            if target is not None and resp.url.startswith("https:"):
                reached = urljoin(resp.url, target)
                if not reached.lower().startswith("https:"):
                    raise requests.RequestException(f"it redirects from https to {reached}")
            return target

    return Session()


def _reason(error: Exception) -> str:
    """The innermost cause, without the names of the objects that it passed through."""
    inner: Any = error
    while isinstance(inner, Exception):
        error = inner
        inner = getattr(error, "reason", None) or next((arg for arg in error.args if isinstance(arg, Exception)), None)
    return re.sub(r"^(<[^>]*>|\w+\([^)]*\)): ", "", str(error))
