"""Block circulant: a matrix of circulant blocks.

Formula:        block (I, J) of W, [b, b], is [p, q] ↦ c_IJ[(p - q) mod b], I = 1…k/b, J = 1…d/b
Parameters:     k·d/b
Initialization: c uniform with the dense layer's variance; every entry of W is an entry of some c
Source:         Ding et al., "CirCNN", MICRO 2017; Chen et al., "Parameter-efficient fine-tuning via circular
                convolution" (C3A), 2024; one block, k = d = b, is the structure "circulant"

W is applied to spectra, in which each block is diagonal: about 2/b of the dense multiplications for large b, 3/8 for
b = 4. The transform is a product with the orthonormal real Fourier basis [b, b], faster than many short fast Fourier
transforms. If b is too small to save time, W is built. If b does not divide a size, the last block is padded.
"""

import math
from typing import Annotated

import torch
from torch import Tensor, nn

from phmrun.layers.block_matrix import from_blocks, into_blocks
from phmrun.layers.structure import Product, Structure, draw_uniform, register

GAIN = 0.6
"""Largest share of the dense multiplications at which spectra are faster than building W."""
SMALL = 2**16
"""Largest number of entries for which W is built. Time by spectra: 1.0–1.3 of dense at 256×256, 0.8–0.9 at 256×768."""


@register("block-circulant")
class BlockCirculant(Structure):
    """Matrix of circulant blocks, applied to Fourier spectra."""

    formula = "block (I, J) of W is circulant, c_IJ its first column"
    count_formula = "k·d/b"
    constraint = "none; padded where b does not divide k and d"
    source = "Ding et al. 2017; Chen et al. 2024"
    linear = True
    pays_from: float = math.inf

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        size: Annotated[int, "Rows and columns b of a block: W takes 1/b of the dense parameters"] = 4,
    ) -> None:
        super().__init__(out_features, in_features, size=size)
        self.size = size
        self.down, self.across = (-(-features // size) for features in (out_features, in_features))
        self.columns = nn.Parameter(torch.empty(self.down, self.across, size))
        self.saves = self.token_multiplications() <= GAIN * out_features * in_features
        self.application = "factored" if self.saves and out_features * in_features > SMALL else "dense"

    @classmethod
    def check(cls, out_features: int, in_features: int, *, size: int) -> str | None:  # type: ignore[override]
        """Return why ``size`` is not between 1 and max(k, d), else None."""
        most = max(out_features, in_features)
        return None if 1 <= size <= most else f"size = {size}; valid size: 1 to {most}"

    def reset_parameters(self, std: float) -> None:
        """Draw c uniformly with standard deviation ``std``, in place."""
        draw_uniform(self.columns, std)

    def materialize(self) -> Tensor:
        """Return W by indexing each block's first column; padding is cut."""
        places = torch.arange(self.size, device=self.columns.device)
        blocks = self.columns[:, :, (places.unsqueeze(1) - places) % self.size]  # [I, J, p, q]
        matrix = blocks.transpose(1, 2).reshape(self.down * self.size, self.across * self.size)
        return matrix[: self.out_features, : self.in_features]

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W without building it, by gathering from first columns."""
        places = torch.arange(self.size, device=index.device)
        order = ((index % self.size).unsqueeze(1) - places) % self.size  # [tokens, q]
        blocks = self.columns.index_select(0, index // self.size)  # [tokens, J, b]
        return blocks.gather(2, order.unsqueeze(1).expand(-1, self.across, -1)).flatten(1)[:, : self.in_features]

    def spectra(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the eigenvalues of all blocks and the Fourier basis.

        f is the number of complex frequencies, (b - 2) / 2 for even b, otherwise (b - 1) / 2.

        Returns:
            Real eigenvalues ``[1 or 2, k/b, d/b]``; complex ones ``[f, 2k/b, 2d/b]``, each z as the matrix
            [[Re z, -Im z], [Im z, Re z]]; the basis ``[b, b]``.
        """
        basis = real_fourier_basis(self.size).to(self.columns)
        reals = 2 - self.size % 2
        values = (self.columns @ basis.t()).permute(2, 0, 1)
        plain = values[:reals] * self.size**0.5
        real, imaginary = (values[reals:] * (self.size / 2) ** 0.5).chunk(2)
        pairs = torch.cat([torch.cat([real, -imaginary], 2), torch.cat([imaginary, real], 2)], 1)
        return plain, pairs, basis

    def product(self) -> Product:
        """Return W x by spectra: transform the blocks, multiply each frequency, transform back."""
        return apply_block_circulant, self.spectra(), {"out_features": self.out_features}

    def packed(self) -> nn.Module | None:
        """Return a module with precomputed spectra.

        None if they take more than 0.6 (``GAIN``) of the dense multiplications.
        """
        return super().packed() if self.saves else None

    def token_multiplications(self) -> int:
        """Return the multiplications per vector, of all frequencies and both transforms.

        Each of the blocks takes 1 for a real frequency and 4 for a complex one. Each of the k/b + d/b transforms takes
        b².
        """
        reals = 2 - self.size % 2
        per_block = reals + 4 * ((self.size - reals) // 2)
        return self.down * self.across * per_block + (self.down + self.across) * self.size**2


def real_fourier_basis(size: int) -> Tensor:
    """Return the orthonormal real Fourier basis ``[size, size]``, in double precision.

    The rows are the real frequencies, then the cosines, then the negative sines: the real and imaginary parts of the
    spectrum.
    """
    places = torch.arange(size, dtype=torch.float64)
    angles = torch.arange(1, (size + 1) // 2, dtype=torch.float64).unsqueeze(1) * places * (2 * math.pi / size)
    alternating = [torch.cos(math.pi * places)] if size % 2 == 0 else []
    reals = torch.stack([torch.ones_like(places), *alternating]) / size**0.5
    return torch.cat([reals, angles.cos() * (2 / size) ** 0.5, -angles.sin() * (2 / size) ** 0.5])


def apply_block_circulant(inputs: Tensor, plain: Tensor, pairs: Tensor, basis: Tensor, *, out_features: int) -> Tensor:
    """Return W x for ``inputs [tokens, d]``, by spectra of the blocks.

    The other arguments are those of :meth:`BlockCirculant.spectra`.

    Returns:
        ``[tokens, out_features]``.
    """
    (reals, down, across), tokens, size = plain.shape, inputs.shape[0], len(basis)
    spectra = torch.matmul(basis, into_blocks(inputs, across, size)).transpose(0, 1)  # [frequency, D, tokens]
    outputs = [torch.bmm(plain, spectra[:reals])]
    if len(pairs):
        both = spectra[reals:].unflatten(0, (2, len(pairs))).transpose(0, 1).flatten(1, 2)  # [f, (part, D), tokens]
        products = torch.bmm(pairs, both).view(len(pairs), 2, down, tokens)
        outputs.append(products.transpose(0, 1).flatten(0, 1))
    back = torch.matmul(basis.t(), torch.cat(outputs).transpose(0, 1))  # [K, b, tokens]
    return from_blocks(back, out_features)
