"""Shares of a whole, written as 1/4, 0.25 or 1e-3."""

import re
from fractions import Fraction

_WRITTEN = re.compile(r"\d{1,18}/\d{1,18}|\d{0,18}\.?\d{0,40}(e[-+]?\d{1,2})?", re.IGNORECASE)
"""Accepted forms. Digits are limited, since a fraction of 1e999999999 would take gigabytes."""


def share_of(value: float | str) -> Fraction | None:
    """Return the exact value of a share.

    The result is ``None`` if it is malformed, not above 0, or above 1.
    """
    text = str(value).strip()
    try:
        share = Fraction(text) if _WRITTEN.fullmatch(text) else Fraction()
    except (ValueError, ZeroDivisionError):
        return None
    return share if 0 < share <= 1 else None


def check_range(name: str, value: int, most: int, zero: str) -> str | None:
    """Return the error message for an option outside of 0 to ``most``, else ``None``; ``zero`` says what 0 is for."""
    return None if 0 <= value <= most else f"{name} = {value}; valid {name}: 1 to {most}, or 0 {zero}"


def check_budget(budget: float | str) -> str | None:
    """Return the error message for an invalid budget.

    A valid one is a share of the dense parameters. The result is ``None`` if the budget is valid.
    """
    if share_of(budget) is None:
        return f"budget = {budget!r} is not a share of the dense parameters; valid: above 0 and at most 1, such as 1/4"
    return None
