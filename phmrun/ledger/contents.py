"""Contents of a run's files, checked against its manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from phmrun.documents import parse_json, parsed
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular
from phmrun.ledger.directory import METRICS, STATUS
from phmrun.ledger.manifest import BrokenChain, Manifest
from phmrun.ledger.status import Status, reason_of

T = TypeVar("T")
_ANEW = "To start over, give the command that trained the run with --restart."


class Contents:
    """Contents of a run's files; creating the object reads nothing.

    Args:
        path: Run directory.
        lenient: Read each file once, and keep errors in `errors` instead of raising them.
    """

    def __init__(self, path: Path, *, lenient: bool) -> None:
        self.path = path
        self.lenient = lenient
        self.manifest = Manifest(path, once=lenient)
        self.errors: dict[str, Exception] = {}
        self._read: dict[str, Any] = {}

    def of(self, name: str, read: Callable[[], T], otherwise: T) -> T:
        """Return the result of ``read``.

        If lenient, it is read once, and ``otherwise`` after an error of reading or decoding, which is kept.
        """
        if not self.lenient:
            return read()
        if name not in self._read:
            try:
                self._read[name] = read()
            except (PhmrunError, OSError, UnicodeDecodeError) as error:
                self._read[name], self.errors[name] = otherwise, error
        content: T = self._read[name]
        return content

    def object(self, name: str, is_valid: Callable[[dict[str, Any]], bool] = lambda content: True) -> dict[str, Any]:
        """Return the JSON object in a file, which is empty if the file is missing and not in the manifest.

        Raises:
            PhmrunError: (exit 3) The file is damaged, is not an object, is not valid, or has a wrong checksum.
        """
        path = self.path / name

        def read() -> dict[str, Any]:
            """Read and check the file."""
            try:
                text = read_regular(path)
                self.manifest.check(path, text)
                content = parsed(text)
            except FileNotFoundError:
                self.manifest.check(path)
                return {}
            except (OSError, ValueError) as error:
                unread = f"the file cannot be read: {reason_of(error)}"
                what = unread if isinstance(error, OSError) else f"this is not JSON: {error}"
                raise PhmrunError(what, where=str(path), code=ExitCode.DATA) from error
            if not isinstance(content, dict):
                raise PhmrunError("this is not a JSON object", where=str(path), code=ExitCode.DATA)
            if not is_valid(content):
                raise PhmrunError(f"this is no {path.name} of a run", where=str(path), code=ExitCode.DATA)
            return content

        return self.of(name, read, {})

    def status(self) -> Status:
        """Return the stored status.

        Raises:
            PhmrunError: (exit 3) The file is missing, damaged, or has a wrong checksum.
        """
        path = self.path / STATUS
        try:
            content = read_regular(path)
            self.manifest.check(path, content)
            return Status.from_json(parse_json(content))
        except FileNotFoundError as error:
            what = f"{STATUS} is missing"
            raise PhmrunError(what, where=str(self.path), hint=_ANEW, code=ExitCode.DATA) from error
        except (OSError, ValueError, TypeError) as error:
            what = f"this is not a status: {reason_of(error)}"
            raise PhmrunError(what, where=str(path), hint=_ANEW, code=ExitCode.DATA) from error

    @property
    def error(self) -> Exception | None:
        """Kept error of the status, else of the scores."""
        return self.errors.get(STATUS) or self.errors.get(METRICS)

    @property
    def damage(self) -> str | None:
        """Reason of `error`, which begins with the file's name, except for a failed checksum or a system's error."""
        if not isinstance(self.error, PhmrunError):
            return str(self.error) if self.error else None
        name = Path(self.error.where or "").name
        return (
            self.error.what if isinstance(self.error, BrokenChain) or "." not in name else f"{name}: {self.error.what}"
        )
