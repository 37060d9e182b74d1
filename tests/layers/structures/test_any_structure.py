"""Every structure at random sizes and options: its count, its refusals, and each of its ways to be used."""

import copy
from typing import Literal, get_args, get_origin

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers import build_structure, options_of
from phmrun.registry import FREEZE, STRUCTURES

SHARES = ["1/4", "1/16", 0.5, 1, "0", "x", 2.0]
VALUES = {int: st.integers(-1, 9), float: st.sampled_from([0.0, 0.03, 0.5, 1.0]), bool: st.booleans()}
"""Values of an option by its type, valid or not."""


def values(name, option, examples):
    """Values of one option: of its type, its default, and those of the examples."""
    shown = st.sampled_from([option.default, *(example[name] for example in examples if name in example)])
    if get_origin(option.annotation) is Literal:
        return st.sampled_from(get_args(option.annotation))
    if option.annotation == float | str:
        return shown | st.sampled_from(SHARES)
    return shown | VALUES.get(option.annotation, st.nothing())


def any_options(name):
    """Options of a structure: an example on its class, or its defaults, with any values of options that are no text."""
    examples = STRUCTURES.get(name).examples
    fields = options_of(name).model_fields
    ours = {key: field for key, field in fields.items() if key != FREEZE and field.annotation is not str}
    changes = st.fixed_dictionaries({}, optional={key: values(key, field, examples) for key, field in ours.items()})
    return st.builds(lambda example, changed: {**example, **changed}, st.sampled_from([{}, *examples]), changes)


OURS = [name for name in STRUCTURES.names() if STRUCTURES.get(name).__module__.startswith("phmrun.layers")]


@st.composite
def sizes(draw):
    """Sizes with common divisors often, equal now and then."""
    unit = draw(st.sampled_from([1, 1, 2, 4, 6, 8, 16]))
    rows = unit * draw(st.integers(1, 40 // unit))
    columns = rows if draw(st.booleans()) else unit * draw(st.integers(1, 40 // unit))
    return rows, columns


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), size=sizes())
def test_it_is_refused_with_a_reason_or_is_one_matrix_by_every_way(name, data, size):
    options = data.draw(any_options(name))
    reason = STRUCTURES.get(name).misfit(*size, **options)
    if reason is not None:
        assert "valid" in reason
        with pytest.raises(PhmrunError, match="cannot build"):
            build_structure(name, *size, **options)
        return
    structure = build_structure(name, *size, **options)
    structure.reset_parameters(0.7)
    structure.double()
    weight = structure.materialize()
    assert weight.shape == size
    inputs = torch.randn(3, size[1], dtype=torch.float64)
    expected = F.linear(inputs, weight)
    torch.testing.assert_close(structure.apply_factored(inputs), expected)
    reduced = structure.reduced(inputs)
    if reduced is not None:
        torch.testing.assert_close(F.linear(*reduced), expected)
        assert reduced[1].shape[1] <= size[1]
    index = torch.randint(size[0], (8,))
    torch.testing.assert_close(structure.rows(index), weight[index])
    structure.eval()
    packed = structure.packed()
    if packed is not None:
        outputs = packed(inputs)
        torch.testing.assert_close(outputs, F.linear(inputs, structure.materialize()))
        assert not any(parameter.requires_grad for parameter in packed.parameters())


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=12, deadline=None)
@given(data=st.data(), size=sizes())
def test_gradients_do_not_depend_on_the_way(name, data, size):
    options = data.draw(any_options(name))
    assume(STRUCTURES.get(name).misfit(*size, **options) is None)
    structure = build_structure(name, *size, **options)
    structure.reset_parameters(0.7)
    structure.double()
    inputs, upstream = torch.randn(3, size[1]).double(), torch.randn(3, size[0]).double()
    parameters = list(structure.parameters())

    def gradients(outputs):
        return torch.autograd.grad(outputs, parameters, upstream[: len(outputs), : outputs.shape[1]])

    dense = gradients(F.linear(inputs, structure.materialize()))
    torch.testing.assert_close(gradients(structure.apply_factored(inputs)), dense)
    index = torch.randint(size[0], (3,))
    rows = torch.autograd.grad(structure.rows(index).square().sum(), parameters)
    table = torch.autograd.grad(structure.materialize()[index].square().sum(), parameters)
    torch.testing.assert_close(rows, table)


@pytest.mark.parametrize("name", OURS)
def test_no_tokens_any_strides_and_copies(name):
    structure = build_structure(name, 16, 16).eval()
    structure.reset_parameters(1.0)
    for inputs in (torch.randn(0, 16), torch.randn(16, 5).t(), torch.randn(5, 32)[:, ::2]):
        expected = inputs @ structure.materialize().t()
        torch.testing.assert_close(structure.apply_factored(inputs), expected, rtol=1e-4, atol=1e-4)
        packed = structure.packed()
        if packed is not None:
            torch.testing.assert_close(packed(inputs), expected, rtol=1e-4, atol=1e-4)
    assert structure.rows(torch.zeros(0, dtype=torch.long)).shape == (0, 16)
    twin = copy.deepcopy(structure)
    other = build_structure(name, 16, 16).eval()
    other.load_state_dict(structure.state_dict())
    for same in (twin, other):
        torch.testing.assert_close(same.materialize(), structure.materialize())
