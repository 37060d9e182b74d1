"""Group transforms against loops over groups; schedules of groups and widths; connections."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers import HGT
from phmrun.layers.define import GroupTransform, group_schedule


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("options", [{}, {"structure": "phm", "n": 2}], ids=str)
def test_each_group_has_its_own_map(shared, options):
    torch.manual_seed(0)
    transform = GroupTransform(18, 30, 3, shared=shared, **options)
    inputs = torch.randn(5, 18)
    parts = []
    for group in range(3):
        number = 0 if shared else group
        weight = transform.maps[number].materialize()
        parts.append(inputs[:, group * 6 : group * 6 + 6] @ weight.t() + transform.bias[number])
    torch.testing.assert_close(transform(inputs.view(5, 3, 6)), torch.cat(parts, 1))


@given(st.integers(1, 12), st.integers(0, 6))
def test_halving_is_equation_1(depth, power):
    """g_l = max(⌊g_max / 2^(l-1)⌋, 1), for l from 1 on; what an HGT does unless told otherwise."""
    expected = [max(math.floor(2**power / 2 ** (layer - 1)), 1) for layer in range(1, depth + 1)]
    assert group_schedule(depth, 2**power, "halving") == expected
    with torch.device("meta"):
        hgt = HGT(64, 640, depth, max_groups=2**power, multiple_of=64)
    assert [transform.groups for transform in hgt.transforms] == expected
    assert not [module for module in hgt.modules() if isinstance(module, torch.nn.LayerNorm)]


def by_hand(hgt, inputs):
    """The unit as the paper's text says it, one token and one group at a time."""
    rows = []
    for vector in inputs:
        hidden = vector
        for layer, transform in enumerate(hgt.transforms):
            groups, before = transform.groups, hidden
            if layer and hgt.shuffle:
                size = len(hidden) // groups
                hidden = torch.stack([hidden[group * size + place] for place in range(size) for group in range(groups)])
            seen = list(hidden.chunk(groups))
            if layer and hgt.connection == "concat":
                seen = list(torch.cat([hidden, vector]).chunk(groups))
            if layer and hgt.connection == "mixer":
                seen = [torch.cat(pair) for pair in zip(hidden.chunk(groups), vector.chunk(groups), strict=True)]
            weights = [structure.materialize() for structure in transform.maps]
            outputs = [
                weights[group % len(weights)] @ part + transform.bias[group % len(weights)]
                for group, part in enumerate(seen)
            ]
            outputs = F.gelu(hgt.norms[layer](torch.cat(outputs)))
            hidden = outputs + before if hgt.connection == "residual" and len(outputs) == len(before) else outputs
        rows.append(hidden)
    return torch.stack(rows)


@pytest.mark.parametrize("connection", ["mixer", "concat", "residual", "plain"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_equals_the_unit_by_hand(connection, shared, shuffle):
    torch.manual_seed(0)
    hgt = HGT(
        8, 24, 4, max_groups=4, connection=connection, shared=shared, shuffle=shuffle, multiple_of=4, schedule="halving"
    )
    inputs = torch.randn(3, 8)
    assert hgt(inputs).shape == (3, 12 if connection == "residual" else 24)
    torch.testing.assert_close(hgt(inputs), by_hand(hgt, inputs), rtol=1e-4, atol=1e-5)


def test_hgt_refuses_options_that_do_not_fit():
    with pytest.raises(PhmrunError, match="16 groups do not divide"):
        HGT(100, 1024, 3)
    with pytest.raises(PhmrunError, match="connection 'dense'"):
        HGT(16, 64, 2, connection="dense")
    with pytest.raises(PhmrunError, match="schedule 'falling'"):
        HGT(16, 64, 2, schedule="falling")
    with pytest.raises(PhmrunError, match="depth is 1,000,000,000"):
        HGT(64, 64, 10**9)
