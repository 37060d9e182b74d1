"""Linear map y = W x + b over any structure, and feed-forward blocks."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.dropout import dropout
from phmrun.layers.structure import Application, Structure, build_structure, build_weight


class Linear(nn.Module):
    """Linear map y = W x + b over any structure.

    A drop-in replacement of ``torch.nn.Linear``.

    Args:
        in_features: Size of an input vector.
        out_features: Size of an output vector.
        bias: Add ``b [out_features]``.
        device: Device of the parameters.
        dtype: Type of the parameters.
        structure: A registered name ("dense", "phm", …), or a structure object to share with another module.
        application: "dense": build W in each forward, then one ``F.linear`` (for most structures best in training);
            "factored": apply the factors without W (best for a few tokens). Default: the structure's ``application``.
        **options: Options of the structure, such as ``n=8``.

    Raises:
        PhmrunError: Unknown structure or option, or sizes that do not fit.
    """

    keeps_weight = False
    """True if other modules read W, so that a copy for inference must contain W."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        structure: str | Structure = "dense",
        application: Application | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        with on_device(device):
            self.structure = build_structure(structure, out_features, in_features, **options)
            self.bias = nn.Parameter(torch.empty(out_features)) if bias else None
        self.application: Application = application or self.structure.application
        self.reset_parameters(shared=isinstance(structure, Structure))
        if dtype is not None:
            self.to(dtype)

    def reset_parameters(self, std: float | None = None, *, zero_bias: bool = False, shared: bool = False) -> None:
        """Draw W by its structure and b uniformly in ±1/√in_features, in place.

        Args:
            std: Standard deviation of W; default: that of ``nn.Linear``, 1/√(3·in_features).
            zero_bias: Set b to zero instead.
            shared: Do not draw W, because another module owns it; b is set in any case.
        """
        if not shared:
            self.structure.reset_parameters(linear_std(self.in_features) if std is None else std)
        if self.bias is not None:
            bound = 0.0 if zero_bias else self.in_features**-0.5
            nn.init.uniform_(self.bias, -bound, bound)

    @property
    def weight(self) -> Tensor:
        """Dense equivalent W ``[out_features, in_features]``, differentiable in the parameters."""
        return build_weight(self.structure)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return W x + b, ``[…, in_features] -> […, out_features]``.

        W is built or its factors are applied, as ``application`` says.
        """
        if self.application == "dense":
            return F.linear(inputs, self.weight, self.bias)
        outputs = self.structure.apply_factored(inputs.reshape(-1, self.in_features))
        outputs = outputs.view(*inputs.shape[:-1], self.out_features)
        return outputs if self.bias is None else outputs + self.bias.to(outputs.dtype)

    def reduced(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors ``[…, r]`` and a matrix ``[out_features, r]``.

        Their product plus b is the output. If the structure has no smaller factorization, they are the inputs and W.
        """
        narrower = self.structure.reduced(inputs)
        return (inputs, self.weight) if narrower is None else narrower

    def extra_repr(self) -> str:
        """Return the sizes, like ``nn.Linear``."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def linear_std(in_features: int) -> float:
    """Return 1/√(3·in), the standard deviation of ``nn.Linear``'s initialization U(-1/√in, 1/√in)."""
    return float((3 * in_features) ** -0.5)


def glorot_std(in_features: int, out_features: int) -> float:
    """Return √(2 / (in + out)), Glorot's standard deviation.

    Source: Glorot and Bengio 2010, equation 16.
    """
    return float((2 / (in_features + out_features)) ** 0.5)


def on_device(device: torch.device | str | None) -> AbstractContextManager[Any]:
    """Return a context that creates tensors on ``device``.

    None keeps the default device.
    """
    return nullcontext() if device is None else torch.device(device)


def plain_linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Return an ``nn.Linear`` with ``weight [out, in]`` and ``bias [out]``.

    Parameters are shared, other tensors copied. The module is built on the meta device, so that no weights are drawn.
    """
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and not isinstance(value, nn.Parameter):
            value = nn.Parameter(value.detach().clone(), requires_grad=False)
        setattr(linear, name, value)
    return linear


Activation = Literal["relu", "swish", "gated-gelu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "swish": F.silu,
    "gated-gelu": partial(F.gelu, approximate="tanh"),
}
GATED = ("gated-gelu",)
"""Activations whose result is multiplied by a second map of the inputs."""


class FeedForward(nn.Module):
    """Feed-forward block y = W₂ · dropout(f(W₁ x + b₁)) + b₂.

    f is the ReLU (Vaswani et al. 2017, eq. 2) or swish, x·σ(x). "gated-gelu" is f(W₁ x + b₁) ∘ (V x + c) with the
    tanh approximation of the GELU (GEGLU of Shazeer 2020, as in T5 1.1).

    Args:
        width: Size of an input and output vector.
        inner: Size of the hidden vector.
        dropout: Share of hidden activations dropped in training.
        bias: Add biases to both maps.
        activation: f.
        contract: Structure and options of the second map; default: those of the first.
        structure: Name of the structure of the maps.
        **options: Options of the structure.

    Raises:
        PhmrunError: A structure or option is unknown, or does not fit the sizes.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        activation: Activation = "relu",
        contract: Mapping[str, Any] | None = None,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        second = {"structure": structure, **options} if contract is None else contract
        self.expand = Linear(width, inner, bias, structure=structure, **options)
        self.gate = Linear(width, inner, bias, structure=structure, **options) if activation in GATED else None
        self.contract = Linear(inner, width, bias, **second)
        self.dropout = dropout
        self.activation = activation
        for linear in (self.expand, self.gate, self.contract):
            if linear is not None:
                linear.reset_parameters(glorot_std(width, inner), zero_bias=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the block's outputs, ``[…, width] -> […, width]``.

        Dropout applies in training only, to the hidden vector after activation and gate.
        """
        hidden = ACTIVATIONS[self.activation](self.expand(inputs))
        hidden = hidden if self.gate is None else hidden * self.gate(inputs)
        return self.contract(dropout(hidden, self.dropout, self.training))
