"""Modules that ``phmrun bench layers`` measures: construction, calls, references.

A *form* is a way to hold a module for inference or training. "dense" builds W once, in a torch module if there is one.
"factored" never builds W. "unfolded" is the module as trained, which builds W at each call.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from phmrun.layers import LSTM, Biaffine, Embedding, Linear, Structure, folded, for_inference
from phmrun.layers.inference import factors_pay, resolve_application
from phmrun.layers.linear import Application
from phmrun.layers.options import checked_options, options_of
from phmrun.registry import STRUCTURES

ORDERS = (2, 4, 8, 16)
Form = Literal["dense", "factored", "unfolded"]
Shape = tuple[int, int]  # (in_features, out_features) unless the kind's docstring says otherwise
Batch = tuple[int, ...]  # shape of a batch of vectors: tokens; or sentences and their length
Inputs = tuple[Tensor, ...]


class Sizes(NamedTuple):
    """Default sizes of a kind."""

    shapes: Sequence[Shape]
    batches: Sequence[Batch]  # of inference
    training: Sequence[Batch]


class ModuleKind(ABC):
    """Kind of module to measure."""

    name: str  # value of ``--module``
    reference: str  # torch module that it is measured against
    sizes: Sizes
    cold = False  # measure cold weights, too, if reading them dominates the time
    ours: type[nn.Module]
    theirs: type[nn.Module]
    arguments: ClassVar[Mapping[str, Any]] = {}  # further arguments of both

    @abstractmethod
    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return (out_features, in_features) of each structured matrix."""

    def build(self, shape: Shape, structure: str, options: Mapping[str, Any]) -> nn.Module:
        """Build our module with a structure, newly initialized."""
        return self.ours(*shape, **self.arguments, structure=structure, **options)

    def plain(self, shape: Shape) -> nn.Module:
        """Build the reference, newly initialized."""
        return self.theirs(*shape, **self.arguments)

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Inputs:
        """Return random inputs of a batch; floating-point inputs require gradients.

        Here one tensor ``[*batch, in_features]`` from a standard normal distribution.
        """
        return (torch.randn(*batch, shape[0], dtype=dtype, requires_grad=True),)

    def call(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """Return the outputs of our module or of the reference."""
        return module(*inputs)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return copies of our module for inference, by form: here dense and unfolded."""
        return {"dense": folded(module), "unfolded": frozen(module)}

    def in_training(self, module: nn.Module) -> Application:
        """Return how training applies the structure: "dense" (builds W) or "factored".

        Here always "dense".
        """
        return "dense"

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """Return the form that inference uses for ``tokens`` vectors.

        It is always "dense" here.
        """
        return "dense"


@dataclass(frozen=True)
class LinearKind(ModuleKind):
    """Linear map with a bias, as a layer or as an output layer."""

    name: str
    sizes: Sizes
    reference = "nn.Linear"
    cold = True
    ours, theirs = Linear, nn.Linear

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return (out_features, in_features) of W."""
        return [(shape[1], shape[0])]

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return the dense form, and packed factors if the structure has them."""
        packed = for_inference(module, "factored")
        factors: dict[str, nn.Module] = {} if isinstance(packed, nn.Linear) else {"factored": packed}
        return {"dense": folded(module), **factors}

    def in_training(self, module: nn.Module) -> Application:
        """Return the module's own ``application``: "dense" or "factored"."""
        return module.application  # type: ignore[return-value]

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """Return the form of inference for ``tokens`` vectors.

        If the application goes by size for so few tokens: "factored" if factors pay, else "dense". Otherwise the
        module's own ``application``.
        """
        if resolve_application("auto", tokens) == "by-size":
            return "factored" if factors_pay(module.structure) else "dense"  # type: ignore[arg-type]
        return self.in_training(module)


class EmbeddingKind(ModuleKind):
    """Table lookup without a padding token, of shape (num_embeddings, embedding_dim)."""

    name = "embedding"
    reference = "nn.Embedding"
    sizes = Sizes(((8192, 512),), ((640,),), ((640,),))
    cold = True
    ours, theirs = Embedding, nn.Embedding

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return (num_embeddings, embedding_dim) of the table."""
        return [shape]

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Inputs:
        """Return uniformly random token ids in the shape of the batch."""
        return (torch.randint(shape[0], batch),)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return the dense table, and "factored" if rows need no table."""
        lookup: dict[str, nn.Module] = {"factored": frozen(module)} if _by_rows(module) else {}
        return {"dense": folded(module), **lookup}

    def in_training(self, module: nn.Module) -> Application:
        """Return "factored" if rows are looked up without building the table, else "dense"."""
        return "factored" if _by_rows(module) else "dense"


class LSTMKind(ModuleKind):
    """LSTM over whole sequences, one layer, one direction, one map per gate.

    Its shape is (input_size, hidden_size), its batch (sequences, length). It is always dense, since the fused kernel
    needs W.
    """

    name = "lstm"
    reference = "nn.LSTM"
    sizes = Sizes(((300, 300),), ((256, 30),), ((256, 30),))
    ours, theirs = LSTM, nn.LSTM
    arguments: ClassVar = {"batch_first": True}

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return the shapes of a gate's maps of inputs and of hidden vectors."""
        return [(shape[1], shape[0]), (shape[1], shape[1])]

    def call(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """Return the outputs of all steps ``[sequences, length, hidden_size]``."""
        return module(*inputs)[0]


class EinsumBiaffine(nn.Module):
    """Dense biaffine form by one ``torch.einsum``, for one label or more.

    x is extended by a 1, and y if ``bias_y``. Weights are normal with standard deviation 1 / in_features.
    """

    def __init__(self, in_features: int, out_features: int, bias_y: bool) -> None:
        super().__init__()
        self.bias_y = bias_y
        self.weight = nn.Parameter(torch.empty(out_features, in_features + 1, in_features + bias_y))
        nn.init.normal_(self.weight, std=1 / in_features)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return scores of all pairs for one label.

        ``[batch, n, d]`` and ``[batch, m, d] -> [batch, n, m]``. With several labels: ``[batch, labels, n, m]``.
        """
        return torch.einsum("bxi,oij,byj->boxy", *self._operands(x, y)).squeeze(1)

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Return scores of x and y at the same position, for each label.

        ``[batch, n, d]`` twice ``-> [batch, n, labels]``.
        """
        return torch.einsum("bxi,oij,bxj->bxo", *self._operands(x, y))

    def _operands(self, x: Tensor, y: Tensor) -> Inputs:
        """Return (x with a 1, weight, y); y gets a 1 if ``bias_y``."""
        ones = torch.ones_like(x[..., :1])
        return torch.cat((x, ones), -1), self.weight, torch.cat((y, ones), -1) if self.bias_y else y


class BiaffineKind(ModuleKind):
    """Biaffine form of shape (in_features, labels).

    With one label, all pairs are scored; otherwise each dependent with its head. The linear terms are those of
    :class:`phmrun.tasks.parse.biaffine_parser.BiaffineParser`.
    """

    name = "biaffine"
    reference = "dense einsum"
    sizes = Sizes(((400, 1), (100, 37)), ((32, 40),), ((32, 40),))

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return (in_features, in_features): the shape of each label's W."""
        return [(shape[0], shape[0])]

    def build(self, shape: Shape, structure: str, options: Mapping[str, Any]) -> Biaffine:
        """Build the parser's classifier of arcs (one label) or of labels.

        Square structures always have the linear term of y, and no constant.
        """
        reduced = STRUCTURES.get(structure).square
        bias_y = reduced or shape[1] > 1
        return Biaffine(*shape, bias_y=bias_y, constant=not reduced, structure=structure, **options)

    def plain(self, shape: Shape) -> EinsumBiaffine:
        """Build the dense reference.

        The vector y has a linear term if there are several labels.
        """
        return EinsumBiaffine(*shape, bias_y=shape[1] > 1)

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Inputs:
        """Return random vectors of dependents and of heads, ``[*batch, in_features]`` each."""
        return super().draw(shape, batch, dtype) + super().draw(shape, batch, dtype)

    def call(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """Return scores of all pairs with one label.

        With several labels: of each dependent with its head.
        """
        single = isinstance(module, Biaffine) and module.out_features == 1
        single = single or (isinstance(module, EinsumBiaffine) and len(module.weight) == 1)
        return module(*inputs) if single else module.pairs(*inputs)  # type: ignore[operator]

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return the dense form, and the module as trained: "factored" or "unfolded"."""
        as_trained: Form = "factored" if self.in_training(module) == "factored" else "unfolded"
        return {"dense": folded(module), as_trained: frozen(module)}

    def in_training(self, module: nn.Module) -> Application:
        """Return "factored" if the module never builds W, else "dense"."""
        return "factored" if isinstance(module, Biaffine) and module.factored else "dense"

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """Return the form of training, for any number of tokens."""
        return self.in_training(module)


MODULE_KINDS: Mapping[str, ModuleKind] = {
    kind.name: kind
    for kind in (
        LinearKind("linear", Sizes(((512, 512), (512, 2048), (2048, 512)), ((1,), (8,), (64,), (4096,)), ((4096,),))),
        LSTMKind(),
        EmbeddingKind(),
        LinearKind("output", Sizes(((512, 32768),), ((1,), (8,), (64,), (512,)), ((512,),))),
        BiaffineKind(),
    )
}


class Case(NamedTuple):
    """Structure with options at one shape of a kind of module.

    Or a layer of another package, with its own constructor.
    """

    kind: ModuleKind
    structure: str  # its registered name, or the package
    options: Mapping[str, Any]
    shape: Shape  # shape of its kind
    make: Callable[[], nn.Module] | None = None  # constructor of another package's layer

    @property
    def label(self) -> str:
        """Name and options: ``phm n=8``."""
        return " ".join([self.structure, *(f"{name}={value}" for name, value in self.options.items())])

    def build(self) -> nn.Module:
        """Build the module, newly initialized: by ``make`` if set, else by its kind."""
        return self.make() if self.make else self.kind.build(self.shape, self.structure, self.options)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return copies of the module for inference, by form.

        With ``make`` only "unfolded", otherwise the forms of its kind.
        """
        return {"unfolded": frozen(module)} if self.make else self.kind.forms(module)

    def auto(self, module: nn.Module, tokens: int | None = None) -> Form:
        """Return the form of training, or of inference if ``tokens`` is not None.

        With ``make`` always "unfolded".
        """
        if self.make:
            return "unfolded"
        return self.kind.in_training(module) if tokens is None else self.kind.chosen(module, tokens)


def cases(
    kind: ModuleKind,
    structures: Sequence[tuple[str, Mapping[str, Any]]],
    orders: Sequence[int] = ORDERS,
    shapes: Sequence[Shape] = (),
    dtype: torch.dtype = torch.float32,
) -> tuple[list[Case], list[str]]:
    """Return the cases to measure, and a reason for each other one.

    Left out are structures that do not fit a shape, and those without half precision if ``dtype`` is below single.

    Args:
        kind: Kind of module.
        structures: Names of structures with options.
        orders: Values of n, for structures that have it and are given without.
        shapes: Shapes; the kind's own if empty.
        dtype: Data type of the measurement.

    Raises:
        PhmrunError: A structure or an option is unknown.
    """
    fitting, left_out = [], []
    for shape in shapes or kind.sizes.shapes:
        for name, options in structures:
            checked = checked_options(name, options)
            ordered = any(option.name == "n" for option in options_of(name)) and "n" not in checked
            for extra in [{"n": n} for n in orders] if ordered else [{}]:
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


def _by_rows(module: nn.Module) -> bool:
    """Return True for an embedding whose structure looks up rows without a table."""
    return isinstance(module, Embedding) and type(module.structure).rows is not Structure.rows


def frozen(module: nn.Module) -> nn.Module:
    """Return a deep copy in eval mode, whose parameters require no gradient."""
    return copy.deepcopy(module).eval().requires_grad_(False)
