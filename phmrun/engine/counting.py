"""How many parameters a configured model has: built on the meta device, so that no weight is allocated."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from phmrun.config import EmbeddingConfig, Experiment, LayerConfig
from phmrun.engine.module import build_module
from phmrun.engine.optimizers import optimizer_kind
from phmrun.layers import Embedding, Linear, Structure
from phmrun.layers.structure import Application
from phmrun.registry import EMBEDDINGS

BYTES = 4
"""Bytes of a weight, a gradient, or a number of the optimizer's state, in single precision."""

TOKENS = 4096
"""Vectors at a time, over which the building of W is spread in counts of multiplications."""


def count_parameters(config: Experiment, sizes: tuple[int, ...] | None = None) -> dict[str, Any]:
    """Counts of the model that ``train`` would build.

    Args:
        config: The resolved config.
        sizes: Of the vocabulary; unless given, the sizes that the config asks for.

    Returns:
        ``total``, what is kept; ``trained_total``, with what only training has; ``dense_total`` (the same model with
        dense maps, and one table in the place of an embedding of several matrices); ``by_scope`` and ``modules``, whose
        entries have ``count`` and ``dense``; ``block_matrices``, the weight matrices inside the blocks; ``memory``,
        bytes in single precision of weights, gradients and the optimizer's state; ``multiplications`` that the weight
        matrices take for one vector each, in all and by scope.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """
    counts = count_network(network_without_weights(config, sizes), config.training.optimizer.name)
    if config.embedding.structure not in EMBEDDINGS:
        return counts
    tables = {"embedding": EmbeddingConfig(), "output": LayerConfig()}  # the two may be tied
    plain = count_network(network_without_weights(config.model_copy(update=tables), sizes))
    for scope in {**counts["by_scope"], **plain["by_scope"]}:
        entry = counts["by_scope"].setdefault(scope, {"count": 0})
        entry["dense"] = plain["by_scope"].get(scope, {"dense": 0})["dense"]
    return {**counts, "dense_total": plain["dense_total"]}


def network_without_weights(config: Experiment, sizes: tuple[int, ...] | None) -> nn.Module:
    """The network of an experiment without weights."""
    with torch.device("meta"):
        return build_module(config, *(sizes or config.sizes)).network


def count_network(network: nn.Module, optimizer: str = "adam") -> dict[str, Any]:
    """The counts of a network, wherever its weights are, trained by ``optimizer``; see :func:`count_parameters`."""
    state = optimizer_kind(optimizer).state
    modules = list(_modules(network))
    trained = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
    scopes: dict[str, dict[str, int]] = {}
    for module in modules:
        entry = scopes.setdefault(module["scope"], {"count": 0, "dense": 0})
        entry["count"] += module["count"]
        entry["dense"] += module["dense"]
    multiplications = _multiplications(network)
    for scope, entry in scopes.items():
        entry["multiplications"] = multiplications.get(scope, 0)
    total = sum(entry["count"] for entry in scopes.values())
    # What the layer's structure divides by n: embeddings and output have structures of their own.
    blocks = [module for module in modules if module["structure"] and module["scope"] not in ("embedding", "output")]
    return {
        "total": total,
        "trained_total": trained,
        "dense_total": sum(entry["dense"] for entry in scopes.values()),
        "multiplications": sum(multiplications.values()),
        "by_scope": scopes,
        "block_matrices": {
            "count": sum(module["count"] for module in blocks),
            "dense": sum(module["dense"] for module in blocks),
        },
        "memory": {
            "weights": BYTES * sum(parameter.numel() for parameter in network.parameters()),
            "gradients": BYTES * trained,
            "optimizer": state * BYTES * trained,
        },
        "modules": modules,
    }


def _modules(network: nn.Module) -> Iterator[dict[str, Any]]:
    """Every module that owns parameters, once, in the order of the network; shared ones where they first stand."""
    seen: set[int] = set()
    for name, module in network.named_modules():
        # What only training has, such as the dense half of a guided matrix, is not kept and so not counted.
        temporary = module.temporary if isinstance(module, Structure) else ()
        own = [
            parameter
            for label, parameter in module.named_parameters(recurse=False)
            if id(parameter) not in seen and label not in temporary
        ]
        seen.update(id(parameter) for parameter in own)
        count = sum(parameter.numel() for parameter in own)
        if not count:
            continue
        structured = isinstance(module, Structure)
        yield {
            "name": name.removesuffix(".inside").removesuffix(".structure"),
            "scope": scope_of(name),
            "structure": module.name if isinstance(module, Structure) else None,
            "kind": "matrix" if structured else "norm" if isinstance(module, nn.LayerNorm | nn.RMSNorm) else "other",
            "count": count,
            "dense": module.out_features * module.in_features if isinstance(module, Structure) else count,
            "shape": [module.out_features, module.in_features] if structured else [list(p.shape) for p in own],
        }


def _multiplications(network: nn.Module) -> dict[str, int]:
    """By scope, the multiplications of all weight matrices for one vector each, W built once for ``TOKENS`` of them.

    A table that is only looked up takes none. An LSTM's kernel reads W, whatever else its structure could do.
    """
    found: dict[str, int] = {}
    for name, module in network.named_modules():
        if isinstance(module, Embedding | Structure):
            continue
        for structure in module.children():
            if isinstance(structure, Structure):
                way: Application | None = None if structure.bilinear else "dense"
                number = structure.multiplications(TOKENS, module.application if isinstance(module, Linear) else way)
                found[scope_of(name)] = found.get(scope_of(name), 0) + number
    return {scope: number // TOKENS for scope, number in found.items()}


def scope_of(name: str) -> str:
    """The part of the network that a module belongs to: encoder, decoder, embedding, output."""
    first = name.partition(".")[0]
    return "embedding" if first.endswith("embedding") else first.removesuffix("_norm").removesuffix("_positions")
