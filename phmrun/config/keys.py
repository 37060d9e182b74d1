"""Types of keys: time limits and the user's files."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
)

from phmrun.section import (
    Unhashed,
)


def _as_a_clock(value: Any) -> Any:
    """Return a time limit as HH:MM:SS.

    A number is minutes, fractions allowed, rounded to seconds. None and truth values become None. A text has at most
    six digits of hours, or eight of minutes.

    Raises:
        ValueError: It is in another form, or 0 seconds.
    """
    if value is None or isinstance(value, bool):
        return None
    text = str(value).strip()
    if match := re.fullmatch(r"(\d{1,6}):([0-5]?\d):([0-5]?\d)", text):
        hours, minutes, seconds = (int(part) for part in match.groups())
        total = hours * 3600 + minutes * 60 + seconds
    elif re.fullmatch(r"\d{1,8}(\.\d+)?", text):
        total = round(float(text) * 60)
    else:
        raise ValueError("must be HH:MM:SS or a number of minutes, less than a hundred years")
    if total == 0:
        raise ValueError("must be longer than 0 seconds")
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"


Clock = Annotated[str | None, BeforeValidator(_as_a_clock), Unhashed()]  # a time limit, HH:MM:SS


def seconds_of(clock: str | None) -> int | None:
    """Return the seconds of a text HH:MM:SS; None stays None."""
    if clock is None:
        return None
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


FilePath = Annotated[Path | None, Unhashed()]  # a user's file: its contents are part of the run id, its path is not
