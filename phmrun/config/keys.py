"""Types of keys: time limits and the user's files."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from phmrun.section import Unhashed


def _checked_clock(value: str | None) -> str | None:
    """Return a time limit.

    Raises:
        ValueError: It is not HH:MM:SS.
    """
    if value is not None and not re.fullmatch(r"\d{1,6}:[0-5]?\d:[0-5]?\d", value):
        raise ValueError("must be HH:MM:SS, such as 01:30:00")
    return value


Clock = Annotated[str | None, AfterValidator(_checked_clock), Unhashed()]  # a time limit, HH:MM:SS


def seconds_of(clock: str | None) -> int | None:
    """Return the seconds of a text HH:MM:SS; None stays None."""
    if clock is None:
        return None
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


FilePath = Annotated[Path | None, Unhashed()]  # a user's file: its contents are part of the run id, its path is not
