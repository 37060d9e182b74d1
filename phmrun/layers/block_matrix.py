"""A matrix in blocks, whatever its size: how many blocks, vectors cut into them, and what a block's factors cost.

Vectors are held *feature-major*, ``[blocks, features of a block, tokens]``: a batch of products over the blocks then
reads and writes whole runs of memory, and no product has to be put in another order for the next one.
"""

import math
from fractions import Fraction

from torch import Tensor
from torch.nn import functional as F

from phmrun.shares import share_of


def block_size(size: int, blocks: int) -> int:
    """Features per block, the last of which is padded where ``blocks`` do not divide ``size``."""
    return -(-size // blocks)


def into_blocks(inputs: Tensor, blocks: int, each: int) -> Tensor:
    """``[tokens, size] -> [blocks, each, tokens]``; no copy, unless there is padding."""
    padding = blocks * each - inputs.shape[1]
    if padding:
        inputs = F.pad(inputs, (0, padding))
    return inputs.unflatten(1, (blocks, each)).permute(1, 2, 0)


def from_blocks(outputs: Tensor, size: int) -> Tensor:
    """``[blocks, each, tokens] -> [tokens, size]``, without the padding."""
    return outputs.flatten(0, 1)[:size].t().contiguous()


def choose_blocks(out_features: int, in_features: int, budget: float | str) -> int:
    """So many blocks each way that factors within the budget can make W of full rank; fewer where W is small.

    With b blocks each way and factors of r numbers between them, the budget fixes b·r = budget·k·d / (k + d), and W can
    have full rank where b·b·r is no less than its smaller side: b ≥ (1 + smaller / larger) / budget. The least common
    divisor of k and d that is no less than that is taken if it is less than twice as much, else a power of two.
    """
    share = share_of(budget) or Fraction(1, 4)
    least = math.ceil((1 + Fraction(min(out_features, in_features), max(out_features, in_features))) / share)
    most = max(1, int(share * out_features * in_features / (out_features + in_features)))
    common = math.gcd(out_features, in_features)
    divisors = [blocks for blocks in range(least, 2 * least) if common % blocks == 0]
    blocks = divisors[0] if divisors else 2 ** math.ceil(math.log2(least))
    return min(blocks, 2 ** int(math.log2(most)), out_features, in_features)
