"""One address to one file: verified TLS, resumed after an interruption, with progress; a downloader for pooch.

What has arrived is kept in a ``.part`` file, from which a later try, or a later process, continues with an HTTP range.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from phmrun.datasets.limits import largest, too_much

CHUNK = 1 << 16
TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two pieces of data
TRIES = 3  # tries at one address, each from where the last one stopped
PAUSE = 1.0  # seconds before the second try, doubled before each further one


class ResumingDownload:
    """Downloads to ``part`` and hands the complete file over to pooch, which compares its checksum.

    Args:
        part: Where to collect what arrives; what is there is continued.
        advance: Told the bytes as they arrive, and those already there.
        pause: Seconds before the second try.
        size: Bytes of the file, if the catalogue knows them: no more is taken, else no more than
            :func:`~phmrun.datasets.limits.largest`.
    """

    def __init__(
        self, part: Path, *, advance: Callable[[int], None], pause: float = PAUSE, size: int | None = None
    ) -> None:
        self.part = part
        self.limit = size or largest()
        self._known = size is not None
        self.resumed = False
        self._advance = advance
        self._pause = pause
        self._shown = 0

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
    while True:
        deeper = getattr(inner, "reason", None) or next(
            (arg for arg in getattr(inner, "args", ()) if isinstance(arg, Exception)), None
        )
        if not isinstance(deeper, Exception):
            break
        inner = deeper
    return re.sub(r"^(<[^>]*>|\w+\([^)]*\)): ", "", str(inner))
