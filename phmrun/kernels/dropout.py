"""Dropout on a CPU with a quarter of the random numbers.

``F.dropout`` draws one 64-bit number for each entry there, which takes more time than the rest of a sublayer's
residual connection. Here a number serves four entries.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

RANDOM_NUMBERS = 2
"""Version of the random numbers of training, recorded in ``environment.json``. 2: masks of this module.

Raise it if the same distributions are drawn from other numbers. Run ids stay: scores of both versions have the same
distribution, but no run of one repeats a run of the other bit by bit.
"""


def dropout(inputs: Tensor, rate: float, training: bool = True, *, along: int | None = None) -> Tensor:
    """Return ``inputs`` after dropout, as ``F.dropout`` does with other random numbers.

    All entries along the axis ``along`` are dropped or kept together; None: each is drawn alone.
    """
    if not training or not rate:
        return inputs
    if along is None and _draws_itself(inputs):
        return F.dropout(inputs, rate)
    return inputs * dropout_mask(inputs if along is None else inputs.narrow(along, 0, 1), rate)


def dropout_mask(like: Tensor, rate: float) -> Tensor:
    """Return a dropout mask in the shape and type of ``like``.

    Entries are 0 at ``rate``, otherwise 1 / (1 - rate). On other devices than the CPU, and compiled, the mask is
    that of ``F.dropout``. On a CPU an entry is kept if its 16 bits of a 64-bit number are at most a limit. The rate is
    rounded to multiples of 2⁻¹⁶, at most 1 - 2⁻¹⁶; the scale fits the rounded rate.
    """
    if _draws_itself(like):
        return F.dropout(torch.ones_like(like), rate)
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = max(1, round(2**16 * (1 - rate)))
    mask = torch.empty(like.shape, dtype=like.dtype)
    torch.le(draws.view(torch.int16)[: like.numel()].view(like.shape), kept - 2**15 - 1, out=mask)
    return mask.mul_(2**16 / kept)


def _draws_itself(inputs: Tensor) -> bool:
    """Return True if ``F.dropout`` is the better choice: on other devices than the CPU, and compiled."""
    return inputs.device.type != "cpu" or torch.compiler.is_compiling()
