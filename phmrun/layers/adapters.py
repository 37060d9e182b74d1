"""Adapters: small trained updates of a model whose other weights are frozen.

The structure ``added`` updates a matrix (:mod:`phmrun.layers.structures.added`); :class:`Adapter` is a module between
two others.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers.embedding import Embedding
from phmrun.layers.inference import plain_module, replaced, restore_transformers
from phmrun.layers.linear import Linear, glorot_std
from phmrun.layers.report import ATTRIBUTE, ConversionReport, conversions, parameter_count, trained_count
from phmrun.layers.structure import Structure
from phmrun.registry import STRUCTURES

Model = TypeVar("Model", bound=nn.Module)


class Adapter(nn.Module):
    """Bottleneck adapter h + U f(D h + b) + c over any structure; the identity at the start.

    With PHM maps it is the adapter of Compacter (Mahabadi et al., NeurIPS 2021), without its factors of S; with dense
    ones that of Houlsby et al. (ICML 2019).

    Args:
        width: Size of an input and output vector.
        bottleneck: Size of the hidden vector.
        activation: f.
        structure: Name of the structure of D and U.
        **options: Options of the structure; default for phm: its own.

    Raises:
        PhmrunError: The structure does not fit, or no trained parameters of it make U zero.
    """

    def __init__(
        self,
        width: int,
        bottleneck: int,
        *,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        structure: str = "phm",
        **options: Any,
    ) -> None:
        super().__init__()
        self.down = Linear(width, bottleneck, structure=structure, **options)
        self.up = Linear(bottleneck, width, structure=structure, **options)
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw D by Glorot and Bengio (2010), and set U and the biases to zero.

        Raises:
            PhmrunError: No trained parameters of U's structure make it zero.
        """
        std = glorot_std(self.down.in_features, self.down.out_features)
        for linear in (self.down, self.up):
            linear.reset_parameters(std, zero_bias=True)
        start_at_zero(self.up.structure, std)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return h + U f(D h + b) + c, ``[…, width] -> […, width]``."""
        return inputs + self.up(self.activation(self.down(inputs)))


@torch.no_grad()
def start_at_zero(structure: Structure, std: float) -> None:
    """Draw the parameters in place, then zero as few as make W zero: of the trained ones, unless all are frozen.

    Of several factors, the one that :meth:`Structure.factors_read` names last is set to zero, as in LoRA. On the meta
    device nothing is set to zero. ``std`` is the standard deviation of W before it is zero.

    Raises:
        PhmrunError: No choice of trained parameters makes W zero; they keep the drawn values.
    """
    structure.reset_parameters(std)
    if next(structure.parameters()).is_meta:
        return
    for chosen in _subsets(structure):
        before = [parameter.clone() for parameter in chosen]
        for parameter in chosen:
            parameter.zero_()
        if not structure.materialize().any():
            return
        for parameter, values in zip(chosen, before, strict=True):
            parameter.copy_(values)
    what = f"no trained parameters of the structure {structure.name!r} make its matrix zero"
    raise PhmrunError(what, hint="An update starts at zero: use low-rank, phm, kronecker or monarch.")


def _subsets(structure: Structure) -> Iterator[tuple[nn.Parameter, ...]]:
    """Yield the sets of trained parameters, smallest first; of all parameters if none is trained.

    Within a size, those come first that :meth:`Structure.factors_read` names last; those that it does not name come at
    the end.
    """
    parameters = dict(structure.named_parameters())
    trained = {name: value for name, value in parameters.items() if value.requires_grad} or parameters
    factors = [name for name in reversed(list(structure.factors_read())) if name in trained]
    ordered = [trained[name] for name in dict.fromkeys([*factors, *trained])]
    for size in range(1, len(ordered) + 1):
        yield from combinations(ordered, size)


def adapters_of(model: nn.Module) -> list[Structure]:
    """Return the structures of a model that are updates of frozen matrices (``added``).

    A shared structure is listed once. Structures inside an update are not listed.
    """
    return [module for module in model.modules() if isinstance(module, Structure) and module.adapter]


def freeze_base(model: nn.Module) -> None:
    """Exclude all parameters from training, in place, except those of updates.

    The parameters of :class:`Adapter` modules are exceptions too. Excepted parameters stay as they are.
    """
    updates = [*adapters_of(model), *(module for module in model.modules() if isinstance(module, Adapter))]
    kept = {id(parameter) for update in updates for parameter in update.parameters()}
    for parameter in model.parameters():
        if id(parameter) not in kept:
            parameter.requires_grad_(False)


def merge(model: Model) -> Model:
    """Return a copy of a model with updates added to their matrices.

    Layers with an update become plain ``torch.nn`` modules. Other layers stay as they are. Tied matrices stay tied. The
    merged matrices have no gradient; parameters that were frozen stay so. The training mode stays. The report of a
    conversion keeps the layers with other structures; without any, it is removed.
    """
    duplicate = copy.deepcopy(model)
    tables: dict[int, nn.Parameter] = {}

    def merged(module: nn.Module) -> nn.Module:
        """Return a plain module for a layer with an update, and any other module itself."""
        if (isinstance(module, Linear | Embedding) or hasattr(module, "plain")) and adapters_of(module):
            return plain_module(module, "folded", tables).train(module.training)
        return module

    with torch.no_grad():
        duplicate = replaced(duplicate, merged)
    report = duplicate.__dict__.pop(ATTRIBUTE, None)
    if isinstance(report, ConversionReport):
        kept = [layer for layer in report.converted if not STRUCTURES.get(layer.structure).adapter]
        if kept:
            duplicate.__dict__[ATTRIBUTE] = replace(
                report, converted=kept, after=parameter_count(duplicate), trained=trained_count(duplicate)
            )
    restore_transformers(duplicate, conversions(model))
    return duplicate
