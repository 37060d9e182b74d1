"""Tests of phmrun/kernels/dropout.py."""

import pytest
import torch

from phmrun.kernels.dropout import dropout, dropout_mask


@pytest.mark.parametrize("dropped", [0.1, 0.5, 0.65])
def test_dropout_mask_keeps_its_share_and_the_mean(dropped):
    torch.manual_seed(0)
    mask = dropout_mask(torch.empty(499, 1001), dropped)
    assert mask.shape == (499, 1001)
    low, high = mask.unique().tolist()
    assert low == 0
    assert high == pytest.approx(1 / (1 - dropped), rel=1e-4)
    deviation = (dropped * (1 - dropped) / mask.numel()) ** 0.5
    for part in (mask, mask.flatten()[::4], mask.flatten()[3::4], mask[0]):
        share = float((part == 0).double().mean())
        assert abs(share - dropped) < 5 * deviation * (mask.numel() / part.numel()) ** 0.5
    pairs = mask.flatten().double()
    assert abs(float(torch.corrcoef(torch.stack([pairs[1:], pairs[:-1]]))[0, 1])) < 5 * mask.numel() ** -0.5


def test_dropout_scales_what_it_keeps_and_repeats_from_the_generators_state():
    inputs = torch.randn(3, 7, 5, dtype=torch.bfloat16, requires_grad=True)
    state = torch.get_rng_state()
    outputs = dropout(inputs, 0.25)
    outputs.sum().backward()
    torch.set_rng_state(state)
    mask = dropout_mask(inputs, 0.25)
    assert torch.equal(outputs, inputs * mask)
    assert torch.equal(inputs.grad, mask)
    assert not torch.equal(dropout_mask(inputs, 0.25), mask)
    assert dropout(inputs, 0.25, training=False) is inputs
    assert dropout(inputs, 0.0) is inputs
    assert dropout_mask(inputs, 1e-12).eq(1).all()


def test_a_compiled_network_draws_by_torch():
    compiled = torch.compile(dropout, backend="eager", fullgraph=True)
    torch.manual_seed(0)
    outputs = compiled(torch.ones(40, 50), 0.5)
    torch.manual_seed(0)
    assert torch.equal(outputs, torch.nn.functional.dropout(torch.ones(40, 50), 0.5))
