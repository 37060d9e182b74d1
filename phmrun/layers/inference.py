"""Copies of a model for inference: plain ``torch.nn`` modules, or factors laid out for a few tokens."""

import copy
import functools
from collections.abc import Callable
from typing import Literal, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from phmrun.layers.biaffine import Biaffine
from phmrun.layers.embedding import Embedding
from phmrun.layers.linear import Linear
from phmrun.layers.structure import Structure, build_weight

Model = TypeVar("Model", bound=nn.Module)

Choice = Literal["dense", "factored", "by-size"]
"""How the maps of a model are kept for inference: all alike; or for a few tokens, each as suits its size."""
Form = Literal[Choice, "folded"]
"""The same, or "folded": plain modules in any case."""

BYTES = 4
"""Of a weight."""
FEW_TOKENS = 32
"""Up to so many tokens per call, reading 1/n of a large map's weights saves more than the second product costs."""


def resolve_application(asked: Literal["auto", Choice], tokens: int) -> Choice:
    """How a part of a model applies its weights, decided once per run from the tokens that each call will bring.

    Args:
        asked: "auto" decides by ``tokens``; anything else stands.
        tokens: Most tokens per call: batch × beam in decoding.
    """
    if asked == "auto":
        return "by-size" if tokens <= FEW_TOKENS else "dense"
    return asked


def factors_pay(structure: Structure) -> bool:
    """Whether a few tokens at a time are served sooner by the factors of a structure than by its W.

    That depends on the sizes alone, so that it is the same on every machine: what the factors save of reading must
    outweigh their further calls.
    """
    saved = structure.out_features * structure.in_features - structure.kept()
    return BYTES * saved >= structure.pays_from


@runtime_checkable
class Foldable(Protocol):
    """A module, other than ``Linear`` and ``Embedding``, that has an equivalent of plain ``torch.nn`` modules."""

    def plain(self) -> nn.Module:
        """The equivalent in evaluation, with weights of its own that need no gradient."""


class PackedLinear(nn.Module):
    """y = W x + b with W applied by a structure's packed factors; for inference on a few tokens."""

    def __init__(self, linear: Linear, operator: nn.Module) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.operator = operator
        self.bias = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """``[…, in_features] -> […, out_features]``."""
        outputs: Tensor = self.operator(inputs.reshape(-1, self.in_features))
        if self.bias is not None:
            outputs = outputs.add_(self.bias)
        return outputs.view(*inputs.shape[:-1], self.out_features)


class PackedFactors(nn.Module):
    """y = W x by a function of the inputs ``[tokens, in_features]``, copies of W's factors and, by name, settings."""

    def __init__(self, function: Callable[..., Tensor], *factors: Tensor, **settings: int) -> None:
        super().__init__()
        self.function = functools.partial(function, **settings)
        self.factors = nn.ParameterList(
            nn.Parameter(factor.detach().clone().contiguous(), requires_grad=False) for factor in factors
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """``[tokens, in_features] -> [tokens, out_features]``."""
        return self.function(inputs, *self.factors).contiguous()


def folded(model: Model) -> Model:
    """A copy of ``model`` in which every structured map is a plain ``nn.Linear``, ``nn.Embedding`` or ``nn.LSTM``.

    Each W is built once; tied matrices stay tied. The copy is in evaluation mode and needs no gradient.
    """
    return for_inference(model, "folded")


@torch.no_grad()
def for_inference(model: Model, application: Form = "dense", **parts: Form) -> Model:
    """A copy of ``model`` for inference, in evaluation mode.

    Args:
        model: Any module that holds ``Linear`` and ``Embedding`` modules, or is one.
        application: "dense": every W is built once, as :func:`folded` does, except where the factors are the better
            way for many tokens too (the structure's own ``application``); "factored": every ``Linear`` whose structure
            has a packed form applies its factors, which reads fewer weights when the tokens are few; "by-size": only
            those do that are large enough (:func:`factors_pay`).
        **parts: Another application for a direct child, by its name: ``decoder="factored"``.
    """
    duplicate = copy.deepcopy(model).eval().requires_grad_(False)
    tables: dict[int, nn.Parameter] = {}
    for name, part in parts.items():
        child = duplicate.get_submodule(name)
        setattr(duplicate, name, replaced(child, functools.partial(_plain, application=part, tables=tables)))
    return replaced(duplicate, functools.partial(_plain, application=application, tables=tables))


@torch.no_grad()
def table_of(embedding: nn.Module) -> nn.Embedding:
    """An embedding, made for inference, as the table of all its vectors, whatever makes them."""
    if isinstance(embedding, nn.Embedding):
        return embedding
    weight: Tensor = embedding.weight  # type: ignore[assignment]
    table = nn.Embedding.from_pretrained(weight)
    for part in embedding.parameters():  # which may be tied to something else: then the table is, too
        if part.shape == weight.shape and torch.equal(part, weight):
            table.weight = part
    return table


def replaced(module: Model, replace: Callable[[nn.Module], nn.Module]) -> Model:
    """``module`` with ``replace`` applied to it and to everything inside; a module in two places stays one module."""
    done: dict[nn.Module, nn.Module] = {}

    def visit(module: nn.Module) -> nn.Module:
        if module not in done:
            for name, child in module._modules.items():  # named_children() passes over the second place of a module
                if child is not None:
                    setattr(module, name, visit(child))
            done[module] = replace(module)
        return done[module]

    return visit(module)  # type: ignore[return-value]


def _plain(module: nn.Module, application: Form, tables: dict[int, nn.Parameter]) -> nn.Module:
    """The inference form of one module; one that knows no other form stays as it is."""
    if isinstance(module, Linear):
        factored = application != "folded" and "factored" in (application, module.structure.application)
        if application == "by-size":
            factored = factors_pay(module.structure)
        operator = module.structure.packed() if factored and not module.keeps_weight else None
        if operator is None:
            return plain_linear(_table(module.structure, tables), module.bias)
        return PackedLinear(module, operator)
    if isinstance(module, Embedding):
        weight = _table(module.structure, tables)
        if module.padding_idx is not None:  # in memory of its own, so that tied maps keep their row
            weight = nn.Parameter(weight.clone(), requires_grad=False)
            weight[module.padding_idx] = 0.0
        plain = nn.Embedding.from_pretrained(weight, padding_idx=module.padding_idx)
        plain.weight = weight
        return plain
    if isinstance(module, Biaffine) and module.factored and application != "folded":
        return module
    return module.plain() if isinstance(module, Foldable) else module


def plain_linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """``nn.Linear`` of ``weight [out, in]`` and ``bias [out]``, which are copied unless they are parameters.

    Made on the meta device so that no weights are drawn to be thrown away.
    """
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and not isinstance(value, nn.Parameter):
            value = nn.Parameter(value.detach().clone(), requires_grad=False)
        setattr(linear, name, value)
    return linear


def _table(structure: Structure, tables: dict[int, nn.Parameter]) -> nn.Parameter:
    """The dense W of a structure, built once however many modules share it."""
    if id(structure) not in tables:
        tables[id(structure)] = nn.Parameter(build_weight(structure).detach().contiguous(), requires_grad=False)
    return tables[id(structure)]
