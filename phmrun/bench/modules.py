"""Modules that ``phmrun bench layers`` measures: construction, calls, references.

A *form* is a way to hold a module for inference or training. "dense" builds W once, in a torch module. "factored" never
builds W. "unfolded" is the module as trained, which builds W at each call.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from phmrun.config.options import checked_options, options_of
from phmrun.layers import LSTM, Linear, folded, for_inference
from phmrun.layers.inference import factors_pay, resolve_application
from phmrun.layers.linear import Application
from phmrun.registry import STRUCTURES

ORDERS = (2, 4, 8, 16)
Form = Literal["dense", "factored", "unfolded"]
Shape = tuple[int, int]  # (in_features, out_features) unless the kind's docstring says otherwise
Batch = tuple[int, ...]  # shape of a batch of vectors: tokens; or sentences and their length


class ModuleKind:
    """Kind of module to measure: a linear map with a bias."""

    name = "linear"  # value of ``--module``
    reference = "nn.Linear"  # torch module that it is measured against
    ours: type[nn.Module] = Linear
    theirs: type[nn.Module] = nn.Linear
    arguments: ClassVar[Mapping[str, Any]] = {}  # further arguments of both
    cold = True  # measure cold weights, too: reading them dominates the time
    shapes: Sequence[Shape] = ((512, 512), (512, 2048), (2048, 512))
    batches: Sequence[Batch] = ((1,), (8,), (64,), (4096,))  # of inference
    training: Sequence[Batch] = ((4096,),)

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return (out_features, in_features) of each structured matrix."""
        return [(shape[1], shape[0])]

    def plain(self, shape: Shape) -> nn.Module:
        """Build the reference, newly initialized."""
        return self.theirs(*shape, **self.arguments)

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Tensor:
        """Return random inputs of a batch; floating-point inputs require gradients.

        Here ``[*batch, in_features]`` from a standard normal distribution.
        """
        return torch.randn(*batch, shape[0], dtype=dtype, requires_grad=True)

    def call(self, module: nn.Module, inputs: Tensor) -> Tensor:
        """Return the outputs of our module or of the reference."""
        outputs: Tensor = module(inputs)
        return outputs

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return copies of our module for inference: the dense form, and packed factors if the structure has them."""
        packed = for_inference(module, "factored")
        return {"dense": folded(module), **({} if isinstance(packed, nn.Linear) else {"factored": packed})}

    def in_training(self, module: nn.Module) -> Application:
        """Return how training applies the structure: "dense" (builds W) or "factored"."""
        return module.application  # type: ignore[return-value]

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """Return the form that inference uses for ``tokens`` vectors.

        If the application goes by size for so few tokens: "factored" if factors pay, else "dense". Otherwise the
        module's own ``application``.
        """
        if resolve_application("auto", tokens) == "by-size":
            return "factored" if factors_pay(module.structure) else "dense"  # type: ignore[arg-type]
        return self.in_training(module)


class LSTMKind(ModuleKind):
    """LSTM over whole sequences, one layer, one direction, one map per gate.

    Its shape is (input_size, hidden_size), its batch (sequences, length). It is always dense, since the fused kernel
    needs W.
    """

    name, reference, ours, theirs = "lstm", "nn.LSTM", LSTM, nn.LSTM
    arguments: ClassVar = {"batch_first": True}
    cold = False
    shapes = ((300, 300),)
    batches = training = ((256, 30),)

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return the shapes of a gate's maps of inputs and of hidden vectors."""
        return [(shape[1], shape[0]), (shape[1], shape[1])]

    def call(self, module: nn.Module, inputs: Tensor) -> Tensor:
        """Return the outputs of all steps ``[sequences, length, hidden_size]``."""
        outputs: Tensor = module(inputs)[0]
        return outputs

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return copies of our module for inference: dense and unfolded."""
        return {"dense": folded(module), "unfolded": frozen(module)}

    def in_training(self, module: nn.Module) -> Application:
        """Return "dense"."""
        return "dense"

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """Return "dense"."""
        return "dense"


MODULE_KINDS: Mapping[str, ModuleKind] = {kind.name: kind for kind in (ModuleKind(), LSTMKind())}


@dataclass(frozen=True)
class Case:
    """Structure with options at one shape of a kind of module."""

    kind: ModuleKind
    structure: str
    options: Mapping[str, Any]
    shape: Shape

    @property
    def label(self) -> str:
        """Name and options: ``phm n=8``."""
        return " ".join([self.structure, *(f"{name}={value}" for name, value in self.options.items())])

    def build(self) -> nn.Module:
        """Build the module, newly initialized."""
        return self.kind.ours(*self.shape, **self.kind.arguments, structure=self.structure, **self.options)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return copies of the module for inference, by form."""
        return self.kind.forms(module)

    def auto(self, module: nn.Module, tokens: int | None = None) -> Form:
        """Return the form of training, or of inference if ``tokens`` is not None."""
        return self.kind.in_training(module) if tokens is None else self.kind.chosen(module, tokens)


def cases(
    kind: ModuleKind,
    structures: Sequence[tuple[str, Mapping[str, Any]]],
    orders: Sequence[int] = (),
    shapes: Sequence[Shape] = (),
    dtype: torch.dtype = torch.float32,
) -> tuple[list[Case], list[str]]:
    """Return the cases to measure, and a reason for each other one.

    Left out are structures that do not fit a shape, and those without half precision if ``dtype`` is below single.

    Args:
        kind: Kind of module.
        structures: Names of structures with options.
        orders: Values of n, for structures that have it and are given without; :data:`ORDERS` if empty.
        shapes: Shapes; the kind's own if empty.
        dtype: Data type of the measurement.

    Raises:
        PhmrunError: A structure or an option is unknown.
    """
    fitting, left_out = [], []
    for shape in shapes or kind.shapes:
        for name, options in structures:
            checked = checked_options(f"layer {name!r}", options_of(name), options)
            ordered = "n" in options_of(name).model_fields and "n" not in checked
            for extra in [{"n": n} for n in orders or ORDERS] if ordered else [{}]:
                case, structure = Case(kind, name, {**extra, **checked}, shape), STRUCTURES.get(name)
                misfits = (structure.misfit(*sizes, **case.options) for sizes in kind.maps(shape))
                reason = next((misfit for misfit in misfits if misfit), None)
                if dtype.itemsize < 4 and not structure.half_precision:
                    reason = "no lower precision than single"
                if reason:
                    left_out.append(f"{kind.name}, {case.label}, {shape[0]} → {shape[1]}: {reason}")
                else:
                    fitting.append(case)
    return fitting, left_out


def frozen(module: nn.Module) -> nn.Module:
    """Return a deep copy in eval mode, whose parameters require no gradient."""
    return copy.deepcopy(module).eval().requires_grad_(False)
