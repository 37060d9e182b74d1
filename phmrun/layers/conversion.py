"""Conversion of ``torch.nn`` layers of a model to structures; ``folded`` is the inverse."""

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
"""Layers that are converted; subclasses are not, because they may compute something else."""


def convert(
    model: Model,
    structure: str,
    *,
    names: str | Iterable[str] = "*",
    but: str | Iterable[str] = (),
    weights: Literal["new", "nearest"] = "new",
    **options: Any,
) -> Model:
    """Return a copy of ``model`` whose linear, embedding and LSTM layers have a structure.

    Tied matrices stay tied. Each layer keeps its device, type, training mode and ``requires_grad``.
    ``nn.MultiheadAttention`` keeps its joint map of Q, K and V, which is not an ``nn.Linear``. Create the optimizer
    after the copy.

    Args:
        model: Any module.
        structure: A registered name: "phm", "low-rank", ….
        names: Pattern or patterns of names in ``model.named_modules()``, such as "encoder.*".
        but: Pattern or patterns of layers to leave unchanged.
        weights: "new": initialize the layers; "nearest": approximate the present weights (:meth:`Structure.fit`) and
            copy the biases.
        **options: Options of the structure, such as ``n=4``.

    Raises:
        PhmrunError: No layer matches. Or all layers that cannot be converted: a size does not fit, a setting has no
            counterpart, or a weight is tied to an unchanged layer.
    """
    duplicate = copy.deepcopy(model)
    chosen = _chosen(duplicate, names, but)
    owners: dict[int, list[tuple[nn.Module, str]]] = {}  # modules and names of each parameter, by its id
    for prefix, module in duplicate.named_modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            owners.setdefault(id(parameter), []).append((module, f"{prefix}.{name}"))
    shared: dict[int, Structure] = {}
    converted: dict[nn.Module, nn.Module] = {}
    problems = []
    for module, name in chosen.items():
        places = [place for parameter in module.parameters(recurse=False) for place in owners[id(parameter)]]
        outside = [place for owner, place in places if owner not in chosen]
        if outside:
            problems.append(f"{name}: its weight is tied to {outside[0]}, which is not converted")
            continue
        try:
            converted[module] = _converted(module, structure, shared, weights == "nearest", options)
        except PhmrunError as error:
            problems.append(f"{name}: {error.what}")
    if problems:
        raise PhmrunError(
            f"{len(problems)} of {len(chosen)} layers cannot be converted:\n  " + "\n  ".join(problems),
            hint="Other sizes or options, or leave them as they are: but=[…].",
        )
    return replaced(duplicate, lambda module: converted.get(module, module))


def _chosen(model: nn.Module, names: str | Iterable[str], but: str | Iterable[str]) -> dict[nn.Module, str]:
    """Return the layers to convert, with their names."""
    wanted, spared = ((patterns,) if isinstance(patterns, str) else tuple(patterns) for patterns in (names, but))
    layers = {module: name for name, module in model.named_modules() if type(module) in KINDS}
    chosen = {
        module: name
        for module, name in layers.items()
        if any(fnmatchcase(name, pattern) for pattern in wanted)
        and not any(fnmatchcase(name, pattern) for pattern in spared)
    }
    if not chosen:
        what = f"no nn.Linear, nn.Embedding or nn.LSTM of the model is called {' or '.join(wanted)}"
        close = nearest(wanted[0], layers.values()) if wanted else []
        raise PhmrunError(what, hint=f"Did you mean {' or '.join(close)}?" if close else None)
    return chosen


def _converted(
    module: nn.Module, structure: str, shared: dict[int, Structure], near: bool, options: dict[str, Any]
) -> nn.Module:
    """Return the counterpart of a layer over a structure.

    ``shared`` maps ids of dense weights to their structures, and is extended in place.
    """
    layer: Linear | Embedding | LSTM
    if isinstance(module, nn.LSTM):
        layer = _lstm(module, structure, near, options)
    elif isinstance(module, nn.Linear | nn.Embedding):
        weight, ready = module.weight, shared.get(id(module.weight))
        settings: dict[str, Any] = {"device": weight.device, "dtype": weight.dtype, "structure": ready or structure}
        settings |= {} if ready else options
        if isinstance(module, nn.Linear):
            layer = Linear(module.in_features, module.out_features, module.bias is not None, **settings)
            if near and layer.bias is not None:
                layer.bias.data.copy_(module.bias.data)
        elif module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
            raise PhmrunError("an embedding with max_norm, scale_grad_by_freq or sparse gradients has no counterpart")
        else:
            layer = Embedding(module.num_embeddings, module.embedding_dim, module.padding_idx, **settings)
        if not ready:
            shared[id(weight)] = layer.structure
            if near:
                layer.structure.fit(weight.detach())
    # A structure's parameters have no counterparts in the dense matrix: its requires_grad applies to all of them.
    for parameter in layer.parameters():
        parameter.requires_grad_(next(module.parameters()).requires_grad)
    return layer.train(module.training)


@torch.no_grad()
def _lstm(module: nn.LSTM, structure: str, near: bool, options: dict[str, Any]) -> LSTM:
    """Return the counterpart of an ``nn.LSTM``: eight maps per layer and direction, fitted gate by gate."""
    if module.proj_size:
        raise PhmrunError("an LSTM with proj_size has no counterpart")
    weight: Tensor = module.all_weights[0][0]
    same = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
    settings: dict[str, Any] = {name: getattr(module, name) for name in same} | options
    lstm = LSTM(device=weight.device, dtype=weight.dtype, bias_vectors=2, structure=structure, **settings)
    if near:
        for cell, weights in zip(cast(list[GateMaps], list(lstm.cells)), module.all_weights, strict=True):
            for maps, dense in zip((cell.input, cell.recurrent), weights, strict=False):
                for part, rows in zip(cast(list[Structure], list(maps)), dense.chunk(len(maps)), strict=True):
                    part.fit(rows.detach())
            if cell.bias is not None:
                cell.bias.copy_(torch.stack(tuple(weights[2:])))
    return lstm
