"""Copies of a model for inference: plain ``torch.nn`` modules, or packed factors for few tokens."""

import copy
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from phmrun.layers.biaffine import Biaffine
from phmrun.layers.embedding import Embedding
from phmrun.layers.linear import Linear, plain_linear
from phmrun.layers.report import ConvertedLayer, conversions
from phmrun.layers.structure import Structure, build_weight

Model = TypeVar("Model", bound=nn.Module)

Choice = Literal["dense", "factored", "by-size"]
"""Form of a model's maps in inference: all dense, all factored, or chosen by the size of each map."""
Form = Literal[Choice, "folded"]
""":data:`Choice`, or "folded": plain ``torch.nn`` modules only."""

BYTES = 4
"""Bytes per weight."""
FEW_TOKENS = 32
"""Largest number of tokens per call for which factors of large maps are faster than W."""


def resolve_application(asked: Literal["auto", Choice], tokens: int) -> Choice:
    """Resolve "auto" by the number of tokens per call.

    "by-size" for at most 32 tokens (``FEW_TOKENS``), otherwise "dense".

    Args:
        asked: Setting of a run; all values except "auto" are returned unchanged.
        tokens: Largest number of tokens per call: batch × beam in decoding.
    """
    if asked == "auto":
        return "by-size" if tokens <= FEW_TOKENS else "dense"
    return asked


def factors_pay(structure: Structure) -> bool:
    """Return True if a structure's factors are faster than W for few tokens.

    The rule depends on sizes only and is the same on every machine: the saved bytes, 4 per weight, must be at least the
    structure's ``pays_from``. Parameters of training only do not count.
    """
    saved = structure.out_features * structure.in_features - structure.kept()
    return BYTES * saved >= structure.pays_from


class PackedLinear(nn.Module):
    """Linear map y = W x + b by packed factors, for few tokens."""

    def __init__(self, linear: Linear, operator: nn.Module) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.operator = operator
        self.bias = linear.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """Return W x + b, ``[…, in_features] -> […, out_features]``."""
        outputs: Tensor = self.operator(inputs.reshape(-1, self.in_features))
        if self.bias is not None:
            outputs = outputs.add_(self.bias)
        return outputs.view(*inputs.shape[:-1], self.out_features)


def folded(model: Model) -> Model:
    """Return a copy of ``model`` with plain ``torch.nn`` modules instead of structured maps.

    Each W is built once; maps that share a structure share their W. The copy is in evaluation mode without gradients.
    """
    duplicate = for_inference(model, "folded")
    restore_transformers(duplicate, conversions(model))
    return duplicate


def is_pretrained(model: nn.Module) -> bool:
    """Return True for a model of transformers; the package is not imported."""
    if "transformers" not in sys.modules:
        return False
    from transformers import PreTrainedModel

    return isinstance(model, PreTrainedModel)


def restore_transformers(model: Any, layers: Sequence[ConvertedLayer]) -> None:
    """Make a folded or merged model of transformers one that transformers alone saves and loads, in place.

    Maps that were ``Conv1D`` become so again. Tables that are no longer one tensor lose their tie in the configuration;
    other models stay unchanged.

    Args:
        model: Folded or merged model.
        layers: Layers that had a structure before.
    """
    if not layers or not is_pretrained(model):
        return
    from transformers.pytorch_utils import Conv1D

    weights: dict[int, nn.Parameter] = {}
    for layer in layers:
        linear = model.get_submodule(layer.name)
        if layer.kind == "Conv1D" and isinstance(linear, nn.Linear):
            transposed = nn.Parameter(linear.weight.detach().t().contiguous(), linear.weight.requires_grad)
            with torch.device("meta"):  # draws no weights
                conv1d = Conv1D(linear.out_features, linear.in_features)
            conv1d.weight, conv1d.bias = weights.setdefault(id(linear.weight), transposed), linear.bias
            model.set_submodule(layer.name, conv1d.train(linear.training))
    tables = [model.get_input_embeddings(), model.get_output_embeddings()]
    if any(isinstance(module, Structure) for module in model.modules()) or None in tables:
        return
    if tables[0].weight is not tables[1].weight:  # only the first has a padding row of zeros
        model.config.tie_word_embeddings = False
        seen: set[int] = set()
        for name, parameter in list(model.named_parameters(remove_duplicate=False)):
            if id(parameter) in seen:  # such as a bias: it would not be tied again when it is loaded
                place, _, attribute = name.rpartition(".")
                setattr(model.get_submodule(place), attribute, copy.deepcopy(parameter))
            seen.add(id(parameter))


@torch.no_grad()
def for_inference(model: Model, application: Form = "dense", **parts: Form) -> Model:
    """Return a copy of ``model`` for inference, in evaluation mode, without gradients.

    A ``Linear`` without a packed form, or with ``keeps_weight``, becomes dense in all cases. Embeddings become tables.
    Other modules with ``plain`` become plain, except a factored :class:`Biaffine` unless "folded".

    Args:
        model: Any module that contains ``Linear`` and ``Embedding`` modules, or is one.
        application: Form of the maps.

            - "dense": build W once, except for structures whose ``application`` is "factored";
            - "factored": apply the factors, which reads fewer weights for few tokens;
            - "by-size": apply the factors of large maps only (:func:`factors_pay`);
            - "folded": build W once in all cases.
        **parts: Form of a direct submodule, by its name: ``decoder="factored"``; ``application`` applies to the rest.

    Raises:
        AttributeError: A name in ``parts`` is not a submodule.
    """
    duplicate = copy.deepcopy(model).eval().requires_grad_(False)
    tables: dict[int, nn.Parameter] = {}
    for name, part in parts.items():
        child = duplicate.get_submodule(name)
        setattr(duplicate, name, replaced(child, functools.partial(plain_module, application=part, tables=tables)))
    return replaced(duplicate, functools.partial(plain_module, application=application, tables=tables))


@torch.no_grad()
def table_of(embedding: nn.Module) -> nn.Embedding:
    """Return an embedding from :func:`for_inference` as one table of all vectors.

    An ``nn.Embedding`` is returned itself. Otherwise the table is a new ``nn.Embedding`` without gradient, without a
    padding token. If a parameter of the embedding has the same shape and values, it becomes the table's weight.
    """
    if isinstance(embedding, nn.Embedding):
        return embedding
    weight: Tensor = embedding.weight  # type: ignore[assignment]
    table = nn.Embedding.from_pretrained(weight)
    for part in embedding.parameters():  # keep ties of the parameter with other modules
        if part.shape == weight.shape and torch.equal(part, weight):
            table.weight = part
    return table


def replaced(module: Model, replace: Callable[[nn.Module], nn.Module]) -> Model:
    """Replace all submodules by the result of ``replace``, in place, inner ones first.

    Returns ``replace(module)``; the submodules of ``module`` are replaced before. A module that occurs twice is
    replaced once, and its result is in both places.
    """
    done: dict[nn.Module, nn.Module] = {}

    def visit(module: nn.Module) -> nn.Module:
        """Replace the children of a module, then return its replacement; once per module."""
        if module not in done:
            for name, child in module._modules.items():  # named_children() skips a module's second place
                if child is not None:
                    setattr(module, name, visit(child))
            done[module] = replace(module)
        return done[module]

    return visit(module)  # type: ignore[return-value]


def plain_module(module: nn.Module, application: Form, tables: dict[int, nn.Parameter]) -> nn.Module:
    """Return the inference form of a module, or the module itself if it has none.

    A ``Linear`` is packed if its form or its structure's ``application`` is "factored", with "by-size" if factors pay;
    otherwise, and if "folded", it is dense. An ``Embedding`` is a table, with a zero row for padding. A factored
    ``Biaffine`` stays unless "folded"; other modules with ``plain`` give its result.
    ``tables`` holds the dense W of structures by id, and is extended in place.
    """
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
        if module.padding_idx is not None:  # a copy, so that tied maps keep this row
            weight = nn.Parameter(weight.clone(), requires_grad=False)
            weight[module.padding_idx] = 0.0
        plain = nn.Embedding.from_pretrained(weight, padding_idx=module.padding_idx)
        plain.weight = weight
        return plain
    if isinstance(module, Biaffine) and module.form is not None and application != "folded":
        return module
    return module.plain() if hasattr(module, "plain") else module  # type: ignore[operator]


def _table(structure: Structure, tables: dict[int, nn.Parameter]) -> nn.Parameter:
    """Return the dense W of a structure, without gradient.

    It is built once and kept in ``tables`` by the structure's id, so that all modules that share the structure share
    it.
    """
    if id(structure) not in tables:
        tables[id(structure)] = nn.Parameter(build_weight(structure).detach().contiguous(), requires_grad=False)
    return tables[id(structure)]
