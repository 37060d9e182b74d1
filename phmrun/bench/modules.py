"""The modules that ``phmrun bench layers`` measures: how each is built and called, and what it is measured against.

A *form* is a way to hold a module for inference: "dense" has W built once, in a plain torch module where there is one;
"factored" never builds it; "unfolded" is the module as training leaves it, which builds W anew at each call.
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
from phmrun.layers.structure import checked_options, options_of
from phmrun.registry import STRUCTURES

ORDERS = (2, 4, 8, 16)
Form = Literal["dense", "factored", "unfolded"]
Shape = tuple[int, int]  # (in_features, out_features), or what a kind's docstring says
Batch = tuple[int, ...]  # the shape of a batch of vectors: tokens; or sentences and their length
Inputs = tuple[Tensor, ...]


class Sizes(NamedTuple):
    """What is measured unless sizes are given."""

    shapes: Sequence[Shape]
    batches: Sequence[Batch]  # of inference
    training: Sequence[Batch]


class ModuleKind(ABC):
    """A kind of module."""

    name: str  # what ``--module`` calls it
    reference: str  # the torch module that it is measured against
    sizes: Sizes
    cold = False  # whether to measure with weights that are not in the cache, too: where reading them takes the time
    ours: type[nn.Module]
    theirs: type[nn.Module]
    arguments: ClassVar[Mapping[str, Any]] = {}  # further ones of both

    @abstractmethod
    def maps(self, shape: Shape) -> Sequence[Shape]:
        """(out_features, in_features) of each matrix that has the structure."""

    def build(self, shape: Shape, structure: str, options: Mapping[str, Any]) -> nn.Module:
        """A newly drawn module over a structure."""
        return self.ours(*shape, **self.arguments, structure=structure, **options)

    def plain(self, shape: Shape) -> nn.Module:
        """The reference."""
        return self.theirs(*shape, **self.arguments)

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Inputs:
        """Random inputs; vectors ask for gradients."""
        return (torch.randn(*batch, shape[0], dtype=dtype, requires_grad=True),)

    def call(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """The outputs of ours or of the reference."""
        return module(*inputs)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Ours for inference, in each form that it has."""
        return {"dense": folded(module), "unfolded": frozen(module)}

    def in_training(self, module: nn.Module) -> Application:
        """Whether training builds W."""
        return "dense"

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """The form that inference takes for so many tokens, if there is such a form."""
        return "dense"


@dataclass(frozen=True)
class LinearKind(ModuleKind):
    """The linear map, with a bias; of an output layer only the sizes differ."""

    name: str
    sizes: Sizes
    reference = "nn.Linear"
    cold = True
    ours, theirs = Linear, nn.Linear

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """W."""
        return [(shape[1], shape[0])]

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Dense, and packed factors where the structure has them."""
        packed = for_inference(module, "factored")
        factors: dict[str, nn.Module] = {} if isinstance(packed, nn.Linear) else {"factored": packed}
        return {"dense": folded(module), **factors}

    def in_training(self, module: nn.Module) -> Application:
        """As the structure prefers."""
        return module.application  # type: ignore[return-value]

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """Factors of large maps for a few tokens; for more where the structure prefers them in any case."""
        if resolve_application("auto", tokens) == "by-size":
            return "factored" if factors_pay(module.structure) else "dense"  # type: ignore[arg-type]
        return self.in_training(module)


class EmbeddingKind(ModuleKind):
    """The table lookup, without a padding token; its shape is (num_embeddings, embedding_dim)."""

    name = "embedding"
    reference = "nn.Embedding"
    sizes = Sizes(((8192, 512),), ((640,),), ((640,),))
    cold = True
    ours, theirs = Embedding, nn.Embedding

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """The table."""
        return [shape]

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Inputs:
        """Numbers of tokens, all equally likely."""
        return (torch.randint(shape[0], batch),)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """The table, and lookups that need none."""
        lookup: dict[str, nn.Module] = {"factored": frozen(module)} if _by_rows(module) else {}
        return {"dense": folded(module), **lookup}

    def in_training(self, module: nn.Module) -> Application:
        """Factored where rows need no table."""
        return "factored" if _by_rows(module) else "dense"


class LSTMKind(ModuleKind):
    """The LSTM over whole sequences, of one layer and one direction, with a map per gate.

    Its shape is (input_size, hidden_size), its batch (sequences, length). It is always dense: the fused kernel wants W.
    """

    name = "lstm"
    reference = "nn.LSTM"
    sizes = Sizes(((300, 300),), ((256, 30),), ((256, 30),))
    ours, theirs = LSTM, nn.LSTM
    arguments: ClassVar = {"batch_first": True}

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """One map of the inputs and one of the hidden vectors per gate."""
        return [(shape[1], shape[0]), (shape[1], shape[1])]

    def call(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """Outputs of all steps."""
        return module(*inputs)[0]


class EinsumBiaffine(nn.Module):
    """The usual dense biaffine form: vectors followed by a 1 (y only if ``bias_y``), and one ``torch.einsum``."""

    def __init__(self, in_features: int, out_features: int, bias_y: bool) -> None:
        super().__init__()
        self.bias_y = bias_y
        self.weight = nn.Parameter(torch.empty(out_features, in_features + 1, in_features + bias_y))
        nn.init.normal_(self.weight, std=1 / in_features)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores of all pairs, ``[batch, n, d]`` and ``[batch, m, d] -> [batch, n, m]``, for one label."""
        return torch.einsum("bxi,oij,byj->boxy", *self._operands(x, y)).squeeze(1)

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores of x with y of the same position, ``[batch, n, d]`` twice ``-> [batch, n, labels]``."""
        return torch.einsum("bxi,oij,bxj->bxo", *self._operands(x, y))

    def _operands(self, x: Tensor, y: Tensor) -> Inputs:
        one = torch.ones_like(x[..., :1])
        return torch.cat((x, one), -1), self.weight, torch.cat((y, one), -1) if self.bias_y else y


class BiaffineKind(ModuleKind):
    """The biaffine form; its shape is (in_features, labels): all pairs for one label, else dependents with their heads.

    The terms beside the bilinear one are those of :class:`phmrun.tasks.parse.biaffine_parser.BiaffineParser`.
    """

    name = "biaffine"
    reference = "dense einsum"
    sizes = Sizes(((400, 1), (100, 37)), ((32, 40),), ((32, 40),))

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """W of each label."""
        return [(shape[0], shape[0])]

    def build(self, shape: Shape, structure: str, options: Mapping[str, Any]) -> Biaffine:
        """The parser's classifier of arcs, or of labels."""
        reduced = STRUCTURES.get(structure).square
        bias_y = reduced or shape[1] > 1
        return Biaffine(*shape, bias_y=bias_y, constant=not reduced, structure=structure, **options)

    def plain(self, shape: Shape) -> EinsumBiaffine:
        """The same terms as the dense classifiers."""
        return EinsumBiaffine(*shape, bias_y=shape[1] > 1)

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Inputs:
        """Vectors of dependents and of heads."""
        return super().draw(shape, batch, dtype) + super().draw(shape, batch, dtype)

    def call(self, module: nn.Module, inputs: Inputs) -> Tensor:
        """Scores."""
        one = isinstance(module, Biaffine) and module.out_features == 1
        one = one or (isinstance(module, EinsumBiaffine) and len(module.weight) == 1)
        return module(*inputs) if one else module.pairs(*inputs)  # type: ignore[operator]

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Dense, and the module itself."""
        own: Form = "factored" if self.in_training(module) == "factored" else "unfolded"
        return {"dense": folded(module), own: frozen(module)}

    def in_training(self, module: nn.Module) -> Application:
        """Factored for diagonal and circulant W."""
        return "factored" if isinstance(module, Biaffine) and module.factored else "dense"

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """As in training."""
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
    """A structure with its options, in one kind of module at one size; or a layer of another package."""

    kind: ModuleKind
    structure: str  # its registered name, or the package
    options: Mapping[str, Any]
    shape: Shape  # as its kind says
    make: Callable[[], nn.Module] | None = None  # of another package, used in training and in inference alike

    @property
    def label(self) -> str:
        """Name and options: ``phm n=8``."""
        return " ".join([self.structure, *(f"{name}={value}" for name, value in self.options.items())])

    def build(self) -> nn.Module:
        """A newly drawn module."""
        return self.make() if self.make else self.kind.build(self.shape, self.structure, self.options)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """What it is for inference."""
        return {"unfolded": frozen(module)} if self.make else self.kind.forms(module)

    def auto(self, module: nn.Module, tokens: int | None = None) -> Form:
        """The form of training, or the one that inference takes for so many tokens, if there is such a form."""
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
    """What to measure of structures, by their names and options, and why some of it is left out; refuses unknown ones.

    A structure that has an option ``n`` is measured for each of ``orders`` unless n is given; any other once. Sizes are
    the kind's own unless given.
    """
    found, left_out = [], []
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
                    found.append(case)
    return found, left_out


def _by_rows(module: nn.Module) -> bool:
    """Whether a structure looks rows up in a way of its own."""
    return isinstance(module, Embedding) and type(module.structure).rows is not Structure.rows


def frozen(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode that needs no gradient."""
    return copy.deepcopy(module).eval().requires_grad_(False)
