"""A share of the dense parameters, which a structure chooses its own sizes for."""

from phmrun.shares import share_of


def check_budget(budget: float | str) -> str | None:
    """Why the budget is none, with the valid ones."""
    if share_of(budget) is None:
        return f"budget = {budget!r} is no share of the dense parameters; valid: above 0 and up to 1, such as 1/4"
    return None
