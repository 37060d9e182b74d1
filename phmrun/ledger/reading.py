"""Reading of a run's files, checked against its manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json, parsed
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular
from phmrun.ledger.manifest import Manifest
from phmrun.ledger.status import Status, reason_of

_ANEW = "To start over, give the command that trained the run with --restart."


def read_status(path: Path, manifest: Manifest, require_lock: Callable[[], None]) -> Status:
    """Read the stored status of a run.

    ``require_lock`` is called first if the file is missing, because the run may have been moved; it may raise.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged, or has a wrong checksum.
    """
    try:
        content = read_regular(path)
        manifest.check(path, content)
        return Status.from_json(parse_json(content))
    except FileNotFoundError as error:
        require_lock()
        what = f"{path.name} is missing"
        raise PhmrunError(what, where=str(path.parent), hint=_ANEW, code=ExitCode.DATA) from error
    except (OSError, ValueError, TypeError) as error:
        what = f"this is not a status: {reason_of(error)}"
        raise PhmrunError(what, where=str(path), hint=_ANEW, code=ExitCode.DATA) from error


def read_object(path: Path, manifest: Manifest) -> dict[str, Any]:
    """Read a JSON object of a run.

    The result is empty if the file is missing and the manifest does not have it.

    Raises:
        PhmrunError: (exit 3) The file is damaged, is not an object, or has a wrong checksum.
    """
    try:
        read = read_regular(path)
        manifest.check(path, read)
        content = parsed(read)
    except FileNotFoundError:
        manifest.check(path)
        return {}
    except (OSError, ValueError) as error:
        unread = f"the file cannot be read: {reason_of(error)}"
        what = unread if isinstance(error, OSError) else f"this is not JSON: {error}"
        raise PhmrunError(what, where=str(path), code=ExitCode.DATA) from error
    if not isinstance(content, dict):
        raise PhmrunError("this is not a JSON object", where=str(path), code=ExitCode.DATA)
    return content
