"""An existing model with some of its ``torch.nn`` layers built over a structure; :func:`folded` is the way back."""

import copy
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from phmrun.errors import PhmrunError, nearest
from phmrun.layers.embedding import Embedding
from phmrun.layers.inference import replaced
from phmrun.layers.linear import Linear
from phmrun.layers.lstm import LSTM, GateMaps
from phmrun.layers.structure import Structure

Model = TypeVar("Model", bound=nn.Module)
Owners = dict[int, list[tuple[nn.Module, str]]]
"""By parameter the modules that own it, with the name that it has in the model."""
KINDS = (nn.Linear, NonDynamicallyQuantizableLinear, nn.Embedding, nn.LSTM)
"""What is converted; a subclass may compute something else, and stays."""


def convert(
    model: Model,
    structure: str,
    *,
    names: str | Iterable[str] = "*",
    but: str | Iterable[str] = (),
    weights: Literal["new", "nearest"] = "new",
    **options: Any,
) -> Model:
    """A copy of ``model`` in which its ``nn.Linear``, ``nn.Embedding`` and ``nn.LSTM`` have another structure.

    Matrices that are tied stay tied. ``nn.MultiheadAttention`` keeps its joint map of Q, K and V, which is no
    ``nn.Linear``. Train the copy with an optimiser that is made after it.

    Args:
        model: Any module.
        structure: A registered name: "phm", "low-rank", ….
        names: Which layers, by their names in ``model.named_modules()``: "encoder.*", or several such patterns.
        but: Which of these stay as they are.
        weights: "new": drawn as the layer's own initialisation draws them; "nearest": as near to the layer's weights
            as the structure allows (:meth:`Structure.fit`), biases as they are.
        **options: Options of the structure, such as ``n=4``.

    Raises:
        PhmrunError: No layer has such a name; or a layer's size does not fit, one has settings that ours do not have,
            or one is tied to a layer that stays: all of these at once.
    """
    duplicate = copy.deepcopy(model)
    chosen = _chosen(duplicate, _patterns(names), _patterns(but))
    owners = _owners(duplicate)
    shared: dict[int, Structure] = {}
    made: dict[nn.Module, nn.Module] = {}
    problems = []
    for module, name in chosen.items():
        try:
            _check_ties(module, owners, chosen)
            made[module] = _converted(module, structure, shared, weights == "nearest", options)
        except PhmrunError as error:
            problems.append(f"{name}: {error.what}")
    if problems:
        raise PhmrunError(
            f"{len(problems)} of {len(chosen)} layers cannot be converted:\n  " + "\n  ".join(problems),
            hint="Other sizes or options, or leave them as they are: but=[…].",
        )
    return replaced(duplicate, lambda module: made.get(module, module))


def _chosen(model: nn.Module, names: tuple[str, ...], but: tuple[str, ...]) -> dict[nn.Module, str]:
    """The layers to convert, with their names."""
    layers = {module: name for name, module in model.named_modules() if type(module) in KINDS}
    chosen = {
        module: name
        for module, name in layers.items()
        if any(fnmatchcase(name, each) for each in names) and not any(fnmatchcase(name, each) for each in but)
    }
    if not chosen:
        what = f"no nn.Linear, nn.Embedding or nn.LSTM of the model is called {' or '.join(names)}"
        close = nearest(names[0], layers.values()) if names else []
        raise PhmrunError(what, hint=f"Did you mean {' or '.join(close)}?" if close else None)
    return chosen


def _patterns(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _owners(model: nn.Module) -> Owners:
    """Of every parameter the owners."""
    owners: Owners = {}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            owners.setdefault(id(parameter), []).append((module, f"{prefix}.{name}"))
    return owners


def _check_ties(
    module: nn.Module, owners: dict[int, list[tuple[nn.Module, str]]], chosen: dict[nn.Module, str]
) -> None:
    """Refuses a weight that is also that of a module which stays."""
    for parameter in module.parameters(recurse=False):
        for owner, name in owners[id(parameter)]:
            if owner not in chosen:
                raise PhmrunError(f"its weight is tied to {name}, which is not converted")


def _converted(
    module: nn.Module, structure: str, shared: dict[int, Structure], near: bool, options: dict[str, Any]
) -> nn.Module:
    """The layer over a structure; ``shared`` has the structures made so far, by the parameter that they replace."""
    made: nn.Module
    if isinstance(module, nn.LSTM):
        made = _lstm(module, structure, near, options)
    elif isinstance(module, nn.Linear | nn.Embedding):
        ready = shared.get(id(module.weight))
        made = _table_or_map(module, ready or structure, {} if ready else options)
        if not ready:
            shared[id(module.weight)] = made.structure
            if near:
                made.structure.fit(module.weight.detach())
        if near and isinstance(made, Linear) and made.bias is not None:
            made.bias.data.copy_(module.bias.data)  # type: ignore[arg-type]
    for parameter in made.parameters():
        parameter.requires_grad_(next(module.parameters()).requires_grad)
    return made.train(module.training)


def _table_or_map(
    module: nn.Linear | nn.Embedding, structure: str | Structure, options: dict[str, Any]
) -> Linear | Embedding:
    """Our counterpart of an ``nn.Linear`` or ``nn.Embedding``."""
    where: dict[str, Any] = {"device": module.weight.device, "dtype": module.weight.dtype}
    if isinstance(module, nn.Linear):
        bias = module.bias is not None
        return Linear(module.in_features, module.out_features, bias, structure=structure, **where, **options)
    if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
        raise PhmrunError("an embedding with max_norm, scale_grad_by_freq or sparse gradients has no counterpart")
    rows, width, padding = module.num_embeddings, module.embedding_dim, module.padding_idx
    return Embedding(rows, width, padding, structure=structure, **where, **options)


def _lstm(module: nn.LSTM, structure: str, near: bool, options: dict[str, Any]) -> LSTM:
    """Our counterpart of an ``nn.LSTM``: eight maps per layer and direction."""
    if module.proj_size:
        raise PhmrunError("an LSTM with proj_size has no counterpart")
    weight: Tensor = module.all_weights[0][0]
    made = LSTM(
        module.input_size,
        module.hidden_size,
        module.num_layers,
        module.bias,
        module.batch_first,
        module.dropout,
        module.bidirectional,
        device=weight.device,
        dtype=weight.dtype,
        bias_vectors=2,
        structure=structure,
        **options,
    )
    if near:
        for number, cell in enumerate(made.cells):
            _fit_cell(cell, *module.all_weights[number])  # type: ignore[arg-type]
    return made


@torch.no_grad()
def _fit_cell(cell: GateMaps, inputs: Tensor, recurrent: Tensor, *biases: Tensor) -> None:
    """Gate by gate, in torch's order."""
    for maps, weight in ((cell.input, inputs), (cell.recurrent, recurrent)):
        for part, rows in zip(maps, weight.detach().chunk(len(maps)), strict=True):
            part.fit(rows)  # type: ignore[operator]
    if cell.bias is not None:
        cell.bias.copy_(torch.stack(biases))
