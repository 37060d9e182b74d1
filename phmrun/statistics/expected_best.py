"""Expected best validation score by number of trials.

The best of n trials, drawn with replacement from N trials with scores v_1 ≤ … ≤ v_N, has the expectation

    Σ_i v_i · ((i / N)^n - ((i - 1) / N)^n)

It compares methods at equal effort; the best trial alone favors the method with most trials.

Source: Dodge et al. 2019, "Show your work: improved reporting of experimental results", equation 4.
"""

from collections.abc import Sequence


def expected_best(scores: Sequence[float], *, lower_is_better: bool = False) -> list[float]:
    """Return the expected best score for 1, 2, … N trials.

    For k trials: Σ_i v_i · ((i / N)^k - ((i - 1) / N)^k), with the scores v_i from the worst (i = 1) to the best. The
    result is empty without scores.
    """
    ordered = sorted(scores, reverse=lower_is_better)
    count = len(ordered)
    return [
        sum(value * ((rank / count) ** tries - ((rank - 1) / count) ** tries) for rank, value in enumerate(ordered, 1))
        for tries in range(1, count + 1)
    ]
