"""A share of the dense parameters, which a structure chooses its own sizes for."""

from fractions import Fraction


def share_of(budget: float | str) -> Fraction | None:
    """The budget as an exact number; ``None`` where it is not one above 0 and up to 1."""
    try:
        share = Fraction(str(budget))
    except (ValueError, ZeroDivisionError):
        return None
    return share if 0 < share <= 1 else None


def check_budget(budget: float | str) -> str | None:
    """Why the budget is none, with the valid ones."""
    if share_of(budget) is None:
        return f"budget = {budget!r} is no share of the dense parameters; valid: above 0 and up to 1, such as 1/4"
    return None
