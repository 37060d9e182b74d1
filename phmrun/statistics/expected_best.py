"""The expected best validation score against the number of trials.

Of N trials with the scores v_1 ≤ … ≤ v_N, the best of n that are drawn with replacement is expected at

    Σ_i v_i · ((i / N)^n - ((i - 1) / N)^n)

It says what a method gives for an effort, where the best trial alone rewards whoever tried most.

Source: Dodge et al. 2019, "Show your work: improved reporting of experimental results", equation 4.
"""

from collections.abc import Sequence


def expected_best(scores: Sequence[float], *, lower_is_better: bool = False) -> list[float]:
    """The expectation for 1, 2, … N trials, by the scores of all."""
    ordered = sorted(scores, reverse=lower_is_better)
    count = len(ordered)
    return [
        sum(value * ((rank / count) ** tries - ((rank - 1) / count) ** tries) for rank, value in enumerate(ordered, 1))
        for tries in range(1, count + 1)
    ]
