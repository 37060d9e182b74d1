"""``Embedding`` as a drop-in for ``torch.nn.Embedding``, over every structure."""

import pytest
import torch
from structure_cases import CASES
from torch import nn

from phmrun.layers import Embedding

TOKENS = torch.tensor([[3, 0, 47, 3], [1, 2, 0, 0]])


@pytest.mark.parametrize("padding", [None, 0, 3])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_rows_and_gradients_equal_torchs_with_the_same_table(name, options, padding):
    torch.manual_seed(0)
    ours = Embedding(48, 16, padding, structure=name, **options)
    table = ours.weight.detach().clone()
    theirs = nn.Embedding(48, 16, padding)
    with torch.no_grad():
        theirs.weight.copy_(table)
        if padding is not None:
            theirs.weight[padding] = 0
    vectors, expected = ours(TOKENS), theirs(TOKENS)
    torch.testing.assert_close(vectors, expected)

    upstream = torch.randn_like(vectors)
    vectors.backward(upstream)
    expected.backward(upstream)
    # The gradient of the table, carried on to the factors by the structure's own construction of it.
    gradients = torch.autograd.grad(ours.structure.materialize(), list(ours.structure.parameters()), theirs.weight.grad)
    for parameter, gradient in zip(ours.structure.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_under_autocast_rows_are_built_in_full_precision(name, options):
    torch.manual_seed(0)
    table = Embedding(48, 16, structure=name, **options)
    exact = table(TOKENS)
    with torch.autocast("cpu", torch.bfloat16):
        vectors = table(TOKENS)
    assert vectors.dtype == torch.float32
    assert torch.equal(vectors, exact)
