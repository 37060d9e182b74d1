"""An existing model with some of its ``torch.nn`` layers built over a structure; :func:`folded` is the way back."""

import copy
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar, cast

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
    chosen = _chosen(duplicate, names, but)
    owners: dict[int, list[tuple[nn.Module, str]]] = {}  # by parameter, with the name that it has in each
    for prefix, module in duplicate.named_modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            owners.setdefault(id(parameter), []).append((module, f"{prefix}.{name}"))
    shared: dict[int, Structure] = {}
    made: dict[nn.Module, nn.Module] = {}
    problems = []
    for module, name in chosen.items():
        places = [place for parameter in module.parameters(recurse=False) for place in owners[id(parameter)]]
        outside = [place for owner, place in places if owner not in chosen]
        if outside:
            problems.append(f"{name}: its weight is tied to {outside[0]}, which is not converted")
            continue
        try:
            made[module] = _converted(module, structure, shared, weights == "nearest", options)
        except PhmrunError as error:
            problems.append(f"{name}: {error.what}")
    if problems:
        raise PhmrunError(
            f"{len(problems)} of {len(chosen)} layers cannot be converted:\n  " + "\n  ".join(problems),
            hint="Other sizes or options, or leave them as they are: but=[…].",
        )
    return replaced(duplicate, lambda module: made.get(module, module))


def _chosen(model: nn.Module, names: str | Iterable[str], but: str | Iterable[str]) -> dict[nn.Module, str]:
    """The layers to convert, with their names."""
    wanted, spared = ((each,) if isinstance(each, str) else tuple(each) for each in (names, but))
    layers = {module: name for name, module in model.named_modules() if type(module) in KINDS}
    chosen = {
        module: name
        for module, name in layers.items()
        if any(fnmatchcase(name, each) for each in wanted) and not any(fnmatchcase(name, each) for each in spared)
    }
    if not chosen:
        what = f"no nn.Linear, nn.Embedding or nn.LSTM of the model is called {' or '.join(wanted)}"
        close = nearest(wanted[0], layers.values()) if wanted else []
        raise PhmrunError(what, hint=f"Did you mean {' or '.join(close)}?" if close else None)
    return chosen


def _converted(
    module: nn.Module, structure: str, shared: dict[int, Structure], near: bool, options: dict[str, Any]
) -> nn.Module:
    """The layer over a structure; ``shared`` has the structures made so far, by the parameter that they replace."""
    made: Linear | Embedding | LSTM
    if isinstance(module, nn.LSTM):
        made = _lstm(module, structure, near, options)
    elif isinstance(module, nn.Linear | nn.Embedding):
        weight, ready = module.weight, shared.get(id(module.weight))
        settings: dict[str, Any] = {"device": weight.device, "dtype": weight.dtype, "structure": ready or structure}
        settings |= {} if ready else options
        if isinstance(module, nn.Linear):
            made = Linear(module.in_features, module.out_features, module.bias is not None, **settings)
            if near and made.bias is not None:
                made.bias.data.copy_(module.bias.data)
        elif module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
            raise PhmrunError("an embedding with max_norm, scale_grad_by_freq or sparse gradients has no counterpart")
        else:
            made = Embedding(module.num_embeddings, module.embedding_dim, module.padding_idx, **settings)
        if not ready:
            shared[id(weight)] = made.structure
            if near:
                made.structure.fit(weight.detach())
    # A structure's parameters have no counterparts in the dense matrix: whether it was frozen goes for all of them.
    for parameter in made.parameters():
        parameter.requires_grad_(next(module.parameters()).requires_grad)
    return made.train(module.training)


@torch.no_grad()
def _lstm(module: nn.LSTM, structure: str, near: bool, options: dict[str, Any]) -> LSTM:
    """Our counterpart of an ``nn.LSTM``: eight maps per layer and direction, fitted gate by gate."""
    if module.proj_size:
        raise PhmrunError("an LSTM with proj_size has no counterpart")
    weight: Tensor = module.all_weights[0][0]
    same = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
    settings: dict[str, Any] = {name: getattr(module, name) for name in same} | options
    made = LSTM(device=weight.device, dtype=weight.dtype, bias_vectors=2, structure=structure, **settings)
    if near:
        for cell, weights in zip(cast(list[GateMaps], list(made.cells)), module.all_weights, strict=True):
            for maps, dense in zip((cell.input, cell.recurrent), weights, strict=False):
                for part, rows in zip(cast(list[Structure], list(maps)), dense.chunk(len(maps)), strict=True):
                    part.fit(rows.detach())
            if cell.bias is not None:
                cell.bias.copy_(torch.stack(tuple(weights[2:])))
    return made
