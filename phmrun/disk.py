"""What is said when a disk is full or cannot be written to."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from phmrun.errors import ExitCode, PhmrunError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
UNWRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def disk_errors(code: ExitCode = ExitCode.DATA, hint: str | None = None, needed: int = 0) -> Iterator[None]:
    """Turns the system's errors of a full, a read-only or a failing disk into one that a user can mend.

    Args:
        code: The exit code.
        hint: What to do when there is room again.
        needed: Bytes that were to be written; 0: unknown.

    Raises:
        PhmrunError: The disk is at fault.
    """
    try:
        yield
    except OSError as error:
        found = disk_error(error, code, hint, needed)
        if found is None:
            raise
        raise found from error


def disk_error(
    error: OSError, code: ExitCode = ExitCode.DATA, hint: str | None = None, needed: int = 0
) -> PhmrunError | None:
    """The same for one error; ``None`` if it is of another kind."""
    path = Path(str(error.filename)) if error.filename is not None else None
    where = str(path) if path else None
    if error.errno in FULL:
        what = "the disk is full" if error.errno == errno.ENOSPC else "no more may be written there"
        facts = [f"{needed / 1e6:,.1f} MB are needed"] if needed else []
        free = _free(path)
        if free is not None and error.errno == errno.ENOSPC:
            facts.append(f"{free / 1e6:,.1f} MB are free")
        advice = hint or "Then give the same command again."
        what = f"{what} ({', '.join(facts)})" if facts else what
        return PhmrunError(what, where=where, hint=f"Make room there. {advice}", code=code)
    if error.errno in UNWRITABLE:
        what = "this cannot be written to: the disk is read-only" if error.errno == errno.EROFS else "no permission"
        return PhmrunError(
            what, where=where, hint="Change that, or choose another place, such as --runs-dir.", code=code
        )
    if error.errno == errno.EIO:
        return PhmrunError("the disk fails", where=where, hint=hint or "Then give the same command again.", code=code)
    return None


def _free(path: Path | None) -> int | None:
    """Free bytes where a file is, or would be."""
    for folder in path.absolute().parents if path else ():
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None
