"""Block partition of matrices and vectors of any size, with padding.

Vectors are *feature-major*, ``[blocks, features of a block, tokens]``. A batch of products over the blocks then reads
and writes contiguous memory, and consecutive products need no transposition.
"""

import math
from fractions import Fraction

from torch import Tensor
from torch.nn import functional as F

from phmrun.shares import share_of


def block_size(size: int, blocks: int) -> int:
    """Return ⌈size / blocks⌉, the number of features per block.

    The last block is padded if ``blocks`` does not divide ``size``.
    """
    return -(-size // blocks)


def into_blocks(inputs: Tensor, blocks: int, size: int) -> Tensor:
    """Split features into blocks of ``size``.

    Shapes: ``[tokens, features] -> [blocks, size, tokens]``.

    The result is a view unless padding is needed.
    """
    padding = blocks * size - inputs.shape[1]
    if padding:
        inputs = F.pad(inputs, (0, padding))
    return inputs.unflatten(1, (blocks, size)).permute(1, 2, 0)


def from_blocks(outputs: Tensor, size: int) -> Tensor:
    """Join blocks and cut the padding after ``size`` features; return contiguous memory.

    ``[blocks, features of a block, tokens] -> [tokens, size]``.
    """
    features = outputs.flatten(0, 1)
    return (features if len(features) == size else features[:size]).t().contiguous()


def choose_blocks(out_features: int, in_features: int, budget: float | str) -> int:
    """Return the number of blocks each way for full rank within a budget.

    With b blocks each way and r numbers between the factors, the budget fixes b·r = budget·k·d / (k + d). W can have
    full rank if b·b·r is at least its smaller side, that is if b ≥ (1 + smaller / larger) / budget. The result is the
    smallest common divisor of k and d that is at least this bound, rounded up, and less than twice the bound. If there
    is none, it is the smallest power of two that is at least the bound. The result is at most k, at most d, and at most
    the largest power of two up to budget·k·d / (k + d). An invalid budget counts as 1/4.
    """
    share = share_of(budget) or Fraction(1, 4)
    least = math.ceil((1 + Fraction(min(out_features, in_features), max(out_features, in_features))) / share)
    most = max(1, int(share * out_features * in_features / (out_features + in_features)))
    common = math.gcd(out_features, in_features)
    divisors = [blocks for blocks in range(least, 2 * least) if common % blocks == 0]
    blocks = divisors[0] if divisors else 2 ** math.ceil(math.log2(least))
    return min(blocks, 2 ** int(math.log2(most)), out_features, in_features)
