"""How large a file may be whose size the catalogue does not know, as it arrives and as it is unpacked."""

import os

from phmrun.errors import PhmrunError

VARIABLE = "PHMRUN_LARGEST_GB"
USUAL = 16  # GB, more than any corpus of the catalogue has; a few hundred kilobytes can unpack to as much
MOST_MEMBERS = 100_000  # files of an archive


def largest() -> int:
    """Bytes of the largest file of unknown size: ``PHMRUN_LARGEST_GB``, or 16 GB.

    Raises:
        PhmrunError: The variable is no number of GB.
    """
    given = os.environ.get(VARIABLE) or str(USUAL)
    if not (given.isascii() and given.isdigit() and len(given) <= 6 and int(given)):
        raise PhmrunError(f"{given!r} is no number of GB", where=VARIABLE, valid=("1 to 999999",))
    return int(given) * 10**9


def too_much(limit: int, known: bool) -> str:
    """What is said of a file that goes beyond its limit.

    Args:
        limit: Bytes.
        known: Whether the catalogue knows its size.
    """
    if known:
        return f"more than the {limit:,} bytes that it should have"
    return f"more than {limit / 1e9:,.0f} GB; to take more: {VARIABLE}={2 * limit // 10**9}"
