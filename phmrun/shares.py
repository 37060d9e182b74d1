"""A share of a whole, as it is written: 1/4, 0.25, 1e-3."""

import re
from fractions import Fraction

_WRITTEN = re.compile(r"\d{1,18}/\d{1,18}|\d{0,18}\.?\d{0,40}(e[-+]?\d{1,2})?", re.IGNORECASE)
"""With few digits: of 1e999999999 a fraction would take minutes to make, and gigabytes."""


def share_of(value: float | str) -> Fraction | None:
    """The share as an exact number; ``None`` where it is not one above 0 and up to 1."""
    text = str(value).strip()
    try:
        share = Fraction(text) if _WRITTEN.fullmatch(text) else Fraction()
    except (ValueError, ZeroDivisionError):
        return None
    return share if 0 < share <= 1 else None


def check_budget(budget: float | str) -> str | None:
    """Why a number is no share of the dense parameters, with the valid ones."""
    if share_of(budget) is None:
        return f"budget = {budget!r} is no share of the dense parameters; valid: above 0 and up to 1, such as 1/4"
    return None
