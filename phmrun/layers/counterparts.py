"""Counterparts of ``torch.nn`` layers over a structure."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from phmrun.errors import PhmrunError
from phmrun.layers.embedding import Embedding
from phmrun.layers.gate_maps import GateMaps
from phmrun.layers.linear import Linear, glorot_std, linear_std, on_device
from phmrun.layers.lstm import LSTM
from phmrun.layers.recurrence import StartedLSTM
from phmrun.layers.structure import Structure, build_structure, build_weight
from phmrun.layers.torch_attention import MAPS, StructuredAttention, structured
from phmrun.registry import STRUCTURES

Shared = dict[int, Structure]
"""New structures by the id of the dense weight."""


def is_conv1d(module: nn.Module) -> bool:
    """Return True for ``Conv1D`` of transformers.

    It is a linear map with weight ``[in, out]``. The package is not imported: the class is called ``Conv1D``, and its
    weight's shape is its attributes ``(nx, nf)``.
    """
    weight, sizes = getattr(module, "weight", None), (getattr(module, "nx", None), getattr(module, "nf", None))
    return type(module).__name__ == "Conv1D" and isinstance(weight, Tensor) and tuple(weight.shape) == sizes


def replaced_matrices(module: nn.Module) -> list[nn.Parameter]:
    """Return a layer's own parameters that the conversion replaces: all but biases.

    Parameters of submodules are left out.
    """
    keep = ("bias", "in_proj_bias", "bias_k", "bias_v")
    return [parameter for name, parameter in module.named_parameters(recurse=False) if name not in keep]


def counterpart(module: nn.Module, structure: str, shared: Shared, near: bool, options: dict[str, Any]) -> nn.Module:
    """Return the counterpart of a layer over a structure.

    It keeps the training mode. Its structures get the first matrix's ``requires_grad``, unless they update frozen
    weights. Attention is changed in place; others are new modules. ``shared`` maps ids of dense weights to their
    structures, and is extended in place; LSTMs and attention do not use it. ``near`` approximates the present weights,
    otherwise they are newly drawn.

    Raises:
        PhmrunError: The structure does not fit, or a setting has no counterpart.
    """
    trained = STRUCTURES.get(structure).updates(**options) or next(iter(replaced_matrices(module))).requires_grad
    training = module.training
    layer: nn.Module
    if isinstance(module, nn.LSTM):
        layer = _lstm(module, structure, near, options)
    elif isinstance(module, StartedLSTM):
        layer = _lstm(module.lstm, structure, near, {**options, "cell": "parser-v2"})
    elif isinstance(module, Structure):
        layer = _drawn(structure, build_weight(module).detach(), linear_std(module.in_features), near, options)
    elif isinstance(module, nn.MultiheadAttention):
        layer = _attention(module, structure, near, options)
    elif isinstance(module, nn.Embedding):
        layer = _embedding(module, structure, shared, near, options)
    else:
        layer = _linear(module, structure, shared, near, options)
    # A structure's parameters have no counterparts in the dense matrix: its requires_grad applies to all of them.
    for part in () if trained else layer.modules():
        if isinstance(part, Structure | LSTM):
            part.requires_grad_(False)
    return layer.train(training)


def _settings(weight: Tensor, structure: str, ready: Structure | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return device, type and structure of a layer, the structure of a tied layer if it is ready."""
    place = {"device": weight.device, "dtype": weight.dtype}
    return {**place, "structure": structure, **options} if ready is None else {**place, "structure": ready}


def _linear(module: nn.Module, structure: str, shared: Shared, near: bool, options: dict[str, Any]) -> Linear:
    """Return the counterpart of an ``nn.Linear`` or ``Conv1D``.

    The bias stays the same parameter; unless ``near``, it gets newly drawn values in place. With ``near``, W is fitted.
    ``Conv1D`` is drawn with standard deviation 0.02 and zero bias, others as ``Linear``. A structure in ``shared`` is
    used again as it is; a new one is added there.
    """
    weight, bias = cast(Tensor, module.weight), cast(nn.Parameter | None, module.bias)
    ready = shared.get(id(weight))
    transposed = is_conv1d(module)
    rows, columns = reversed(weight.shape) if transposed else weight.shape
    layer = Linear(columns, rows, bias is not None, **_settings(weight, structure, ready, options))
    # Others read the weight of attention's output map, so inference keeps it.
    layer.keeps_weight = isinstance(module, NonDynamicallyQuantizableLinear)
    if transposed and not ready:
        layer.reset_parameters(0.02, zero_bias=True)  # as Conv1D draws its own
    if bias is not None:
        if not near:
            bias.data.copy_(cast(Tensor, layer.bias).data)
        layer.bias = bias
    if not ready:
        shared[id(weight)] = layer.structure
        if near:
            layer.structure.fit(weight.detach().t().contiguous() if transposed else weight.detach())
    return layer


def _drawn(structure: str, weight: Tensor, std: float, near: bool, options: dict[str, Any]) -> Structure:
    """Return a structure of a matrix's size, device and type: drawn with ``std``, or the nearest to the matrix."""
    with on_device(weight.device):
        drawn = build_structure(structure, *weight.shape, **options)
    drawn.reset_parameters(std)
    drawn.to(weight.dtype)
    if near:
        drawn.fit(weight)
    return drawn


def _embedding(module: nn.Embedding, structure: str, shared: Shared, near: bool, options: dict[str, Any]) -> Embedding:
    """Return the counterpart of an ``nn.Embedding``; with ``near``, its table is fitted.

    Otherwise it is drawn as ``Embedding`` does. A structure in ``shared`` is used again as it is; a new one is added
    there. With ``near``, a padding row with values becomes a row like any other, since that of ``Embedding`` is zero.

    Raises:
        PhmrunError: It has ``max_norm``, ``scale_grad_by_freq`` or sparse gradients.
    """
    if module.max_norm is not None or module.scale_grad_by_freq or module.sparse:
        raise PhmrunError("an embedding with max_norm, scale_grad_by_freq or sparse gradients has no counterpart")
    weight, ready = module.weight, shared.get(id(module.weight))
    settings, padding = _settings(weight, structure, ready, options), module.padding_idx
    if near and padding is not None and not weight.is_meta and weight[padding].any():
        padding = None  # torch reads the values of this row, which Embedding would replace by zeros
    layer = Embedding(module.num_embeddings, module.embedding_dim, padding, **settings)
    if not ready:
        shared[id(weight)] = layer.structure
        if near:
            layer.structure.fit(weight.detach())
    return layer


@torch.no_grad()
def _attention(
    module: nn.MultiheadAttention, structure: str, near: bool, options: dict[str, Any]
) -> StructuredAttention:
    """Give the matrices of Q, K and V a structure, in place; return the module.

    With ``near`` they are fitted; otherwise they are drawn as in torch, and their joint bias becomes zero. The output
    map is a layer of its own and not changed.
    """
    maps = {}
    for name in MAPS:
        weight = getattr(module, name)
        if weight is not None:
            std = glorot_std(*weight.shape)  # xavier_uniform_, as nn.MultiheadAttention
            maps[name] = _drawn(structure, weight.detach(), std, near, options)
    if not near and module.in_proj_bias is not None:
        module.in_proj_bias.zero_()
    return structured(module, maps)


@torch.no_grad()
def _lstm(module: nn.LSTM, structure: str, near: bool, options: dict[str, Any]) -> LSTM:
    """Return the counterpart of an ``nn.LSTM``, with two bias vectors per gate.

    It has eight maps per layer and direction, or two with the option ``maps="stacked"``. With ``near``, they are fitted
    and biases copied; otherwise all are newly drawn.

    Raises:
        PhmrunError: The LSTM has ``proj_size``.
    """
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
