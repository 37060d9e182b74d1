"""The real spectrum: isometry, inverse, circulant eigenvalues, gradients."""

import pytest
import torch

from phmrun.layers.structures.circulant import as_complex, as_real, convolved, eigenvalues, signal, spectrum

SIZES = [1, 2, 3, 8, 15, 400]


def filtered(vectors, column):
    return as_real(as_complex(spectrum(vectors)) * eigenvalues(column))


@pytest.mark.parametrize("size", SIZES)
def test_inner_products_are_kept_and_the_way_back_is_the_inverse(size):
    torch.manual_seed(0)
    x, y = torch.randn(2, 5, size, dtype=torch.double)
    assert spectrum(x).shape == (5, 2 * (size // 2 + 1))
    torch.testing.assert_close((spectrum(x) * spectrum(y)).sum(-1), (x * y).sum(-1))
    torch.testing.assert_close(signal(spectrum(x), size), x)


@pytest.mark.parametrize("size", SIZES)
def test_filtering_is_the_product_with_the_circulant_matrix(size):
    torch.manual_seed(0)
    column, x = torch.randn(2, size, dtype=torch.double)
    explicit = torch.stack([column.roll(shift) for shift in range(size)], 1)
    torch.testing.assert_close(signal(filtered(x, column), size), explicit @ x)
    torch.testing.assert_close(convolved(x, column), explicit @ x)
    actual = torch.linalg.eigvals(explicit)
    nearest = (eigenvalues(column)[:, None] - actual[None]).abs().amin(1)
    assert nearest.max() < 1e-9


@pytest.mark.parametrize("size", SIZES[:-1])
def test_first_and_second_gradients_of_the_spectrum(size):
    torch.manual_seed(0)
    x = torch.randn(3, size, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(spectrum, x)
    assert torch.autograd.gradgradcheck(spectrum, x)
    spectra = torch.randn(3, 2 * (size // 2 + 1), dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: signal(s, size), spectra)
    column = torch.randn(size, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(filtered, (x, column))
    assert torch.autograd.gradcheck(convolved, (x, column))
    assert torch.autograd.gradcheck(lambda c: convolved(x.detach(), c), column)
