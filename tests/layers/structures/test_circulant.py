import pytest
import torch

from phmrun.errors import PhmrunError
from phmrun.layers import Linear, build_structure
from phmrun.registry import STRUCTURES


def explicit(column):
    """The circulant matrix entry by entry."""
    size = len(column)
    return torch.stack([torch.stack([column[(i - j) % size] for j in range(size)]) for i in range(size)])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 15])
def test_forward_and_gradients_equal_the_explicit_matrix(size):
    torch.manual_seed(size)
    linear = Linear(size, size, structure="circulant", dtype=torch.float64)
    column, inputs = linear.structure.column, torch.randn(4, size, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(4, size, dtype=torch.float64)
    expected = inputs @ explicit(column).t() + linear.bias
    wanted = torch.autograd.grad(expected, [column, inputs], upstream)
    for application in ("dense", "factored"):
        linear.application = application
        outputs = linear(inputs)
        torch.testing.assert_close(outputs, expected)
        torch.testing.assert_close(torch.autograd.grad(outputs, [column, inputs], upstream), wanted)
    torch.testing.assert_close(linear.structure.packed()(inputs) + linear.bias, expected)


def test_every_column_is_the_one_before_it_moved_down():
    structure = build_structure("circulant", 6, 6)
    structure.reset_parameters(1.0)
    weight = structure.materialize()
    assert torch.equal(weight[:, 0], structure.column)
    for j in range(1, 6):
        assert torch.equal(weight[:, j], weight[:, j - 1].roll(1))


def test_its_eigenvectors_are_the_fourier_basis_and_its_spectrum_is_conjugate_symmetric():
    structure = build_structure("circulant", 7, 7).double()
    structure.reset_parameters(1.0)
    weight = structure.materialize().detach().to(torch.complex128)
    basis = torch.fft.fft(torch.eye(7, dtype=torch.complex128)).conj()
    values = torch.fft.fft(structure.column.detach())
    torch.testing.assert_close(weight @ basis, basis * values)
    torch.testing.assert_close(values[1:], values[1:].flip(0).conj())


def test_it_is_d_real_numbers():
    structure = build_structure("circulant", 400, 400)
    assert sum(parameter.numel() for parameter in structure.parameters()) == 400
    assert not any(parameter.is_complex() for parameter in structure.parameters())


def test_it_is_refused_where_w_is_not_square():
    with pytest.raises(PhmrunError, match="4×6 matrix: a circulant matrix is square"):
        Linear(6, 4, structure="circulant")


@pytest.mark.parametrize("application", ["dense", "factored"])
def test_it_runs_under_autocast(application):
    linear = Linear(16, 16, structure="circulant", application=application)
    inputs = torch.randn(3, 16)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = linear(inputs.bfloat16())
    torch.testing.assert_close(outputs.float(), linear(inputs), rtol=0.05, atol=0.05)


def test_layers_that_can_be_had_where_a_circulant_cannot_are_named():
    with pytest.raises(PhmrunError) as caught:
        STRUCTURES.get("circulant")(4, 8)
    named = caught.value.hint.partition(": ")[2].rstrip(".").split(", ")
    assert {"dense", "phm", "low-rank"} <= set(named)
    assert not {"circulant", "symmetric"} & set(named)
    assert all(STRUCTURES.get(name)(4, 8).materialize().shape == (4, 8) for name in named)
