"""A finished output of the search, and the penalty that makes outputs of different lengths comparable."""

from typing import Literal, NamedTuple

Penalty = Literal["gnmt", "power"]


class Hypothesis(NamedTuple):
    """One output of the search."""

    tokens: list[int]  # the output's token numbers without the beginning- and end-of-sentence tokens; may be empty
    score: float  # what hypotheses are ranked by: `log_prob / length_penalty(len(tokens) + 1, alpha, …)`
    log_prob: float  # the natural logarithm of the output's probability, its end-of-sentence token included


def length_penalty(length: int, alpha: float, penalty: Penalty = "gnmt") -> float:
    """The divisor of a hypothesis' log-probability.

    Args:
        length: Generated tokens, the end-of-sentence token counted.
        alpha: 0 ranks by plain log-probability; larger values favour longer outputs.
        penalty: "gnmt": ``((5 + length) / 6) ** alpha`` (Wu et al. 2016, "Google's Neural Machine Translation System",
            equation 14, without coverage); "power": ``length ** alpha``, which OpenNMT, CTranslate2 and Hugging Face
            divide by.
    """
    return float((length if penalty == "power" else (5.0 + length) / 6.0) ** alpha)
