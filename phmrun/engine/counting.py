"""Parameter counts of a configured model, built on the meta device."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from phmrun.config import EmbeddingConfig, Experiment, LayerConfig
from phmrun.engine.module import build_module
from phmrun.engine.optimizers import optimizer_kind
from phmrun.layers import Embedding, Linear, Structure
from phmrun.layers.adapters import adapters_of, freeze_base
from phmrun.layers.network import scope_of, section_of
from phmrun.layers.structure import TOKENS, Application
from phmrun.models.sentences import ClassScores
from phmrun.registry import EMBEDDINGS

BYTES = 4
"""Bytes of a number in single precision."""


def count_parameters(config: Experiment, sizes: tuple[int, ...] | None = None) -> dict[str, Any]:
    """Return the parameter counts of the model that ``train`` would build.

    Args:
        config: Resolved config.
        sizes: Sizes of the vocabulary. None: those of the config.

    Returns:
        Dictionary with the keys:

        - ``total``: parameters of the trained model.
        - ``trained_total``: trainable parameters, with those that only training needs.
        - ``stored_total``, ``served_total``: with updates of frozen weights only. Parameters in a checkpoint, and
          parameters of the network after the updates are merged. ``total`` counts matrices and updates.
        - ``dense_total``: parameters of the same model with dense maps, and one table for a structured embedding.
        - ``by_scope``, ``modules``: ``count`` and ``dense`` of each part and of each module.
        - ``block_matrices``: ``count`` and ``dense`` of the matrices of the section ``layer``.
        - ``memory``: bytes of weights, gradients and optimizer state in single precision.
        - ``multiplications``: multiplications of all weight matrices for one vector each.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not fit.
    """
    counts = count_network(network_without_weights(config, sizes), config.training.optimizer.name)
    if config.embedding.structure not in EMBEDDINGS:
        return counts
    # The two tables may be tied, and maps may be those of the embedding.
    tables = {"embedding": EmbeddingConfig(), "output": LayerConfig(), "maps": ()}
    plain = count_network(network_without_weights(config.model_copy(update=tables), sizes))
    for scope in {**counts["by_scope"], **plain["by_scope"]}:
        entry = counts["by_scope"].setdefault(scope, {"count": 0})
        entry["dense"] = plain["by_scope"].get(scope, {"dense": 0})["dense"]
    return {**counts, "dense_total": plain["dense_total"]}


class _WithoutDraws(TorchFunctionMode):
    """Context in which the functions of ``nn.init`` change nothing.

    On the meta device they take most of a network's time, and ``normal_`` a second to import torch's compiler.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the result of ``func``; for a function of ``nn.init``, its tensor unchanged."""
        named = kwargs or {}
        return named["tensor"] if getattr(func, "__module__", "") == nn.init.__name__ else func(*args, **named)


def network_without_weights(config: Experiment, sizes: tuple[int, ...] | None) -> nn.Module:
    """Return the network of an experiment on the meta device.

    ``sizes`` of None are those of the config. If the config names a base run, all weights except the updates are
    frozen.
    """
    with torch.device("meta"), _WithoutDraws():
        network = build_module(config, *(sizes or config.sizes)).network
    if config.adapts:
        freeze_base(network)
    return network


def count_network(network: nn.Module, optimizer: str = "adam") -> dict[str, Any]:
    """Return the counts of a network on any device: see :func:`count_parameters`.

    ``optimizer`` is the registry's name of the optimizer, for its memory. The entries of "by_scope" have "count",
    "dense" and "multiplications". Parameters outside of structures count as dense, too.
    """
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
    blocks = [module for module in modules if module["structure"] and section_of(module["name"], network) == "layer"]
    adapters = adapters_of(network)
    held = sum(adapter.out_features * adapter.in_features for adapter in adapters)
    return {
        "total": total,
        "trained_total": trained,
        **(_separate(network, adapters, total, held) if adapters else {}),
        "dense_total": sum(entry["dense"] for entry in scopes.values()),
        "multiplications": sum(multiplications.values()),
        "by_scope": scopes,
        "block_matrices": {
            "count": sum(module["count"] for module in blocks),
            "dense": sum(module["dense"] for module in blocks),
        },
        "memory": {
            "weights": BYTES * (sum(parameter.numel() for parameter in network.parameters()) + held),
            "gradients": BYTES * trained,
            "optimizer": BYTES * optimizer_kind(optimizer).numbers(network),
        },
        "modules": modules,
    }


def _separate(network: nn.Module, adapters: Sequence[Structure], total: int, held: int) -> dict[str, int]:
    """Return ``stored_total`` and ``served_total`` of a network with updates.

    The first are the updates and all other trainable parameters. The second are ``total`` without updates and frozen
    matrices, with ``held``. ``total`` counts all parameters, ``held`` the entries of the matrices that are updated.
    """
    inside = {id(parameter): parameter for adapter in adapters for parameter in adapter.parameters()}
    updates = sum(parameter.numel() for parameter in inside.values())
    outside = [parameter for parameter in network.parameters() if id(parameter) not in inside]
    stored = updates + sum(parameter.numel() for parameter in outside if parameter.requires_grad)
    frozen = sum(adapter.frozen_count() for adapter in adapters)
    return {"stored_total": stored, "served_total": total - updates - frozen + held}


def _modules(network: nn.Module) -> Iterator[dict[str, Any]]:
    """Yield an entry for each module that has parameters, in the network's order.

    Keys: "name", "scope", "structure" (or None), "kind" ("matrix", "norm" or "other"), "count", "dense" and "shape".
    Shared parameters are counted at their first module, temporary ones not at all; frozen numbers of a structure count.
    Names lose the endings ".structure" and ".inside". "shape" is [out_features, in_features] of a structure. Without
    one, it is a list of all parameters' shapes, and ``dense`` the count itself. Rows that pad the classes, because a
    structure needs them, are not in ``dense``.
    """
    seen: set[int] = set()
    ends = [module for module in network.modules() if isinstance(module, ClassScores)]
    padded = {part: scores for scores in ends for part in scores.maps[-1].modules()}
    for name, module in network.named_modules():
        structure = module if isinstance(module, Structure) else None
        # Parameters of training alone, such as the dense half of a guided matrix, are not counted.
        temporary = structure.temporary if structure else ()
        parameters = [
            parameter
            for label, parameter in module.named_parameters(recurse=False)
            if id(parameter) not in seen and label not in temporary
        ]
        seen.update(id(parameter) for parameter in parameters)
        count = sum(parameter.numel() for parameter in parameters) + (structure.frozen_count() if structure else 0)
        if not count:
            continue
        dense = _dense(structure) if structure else count
        shapes = [list(parameter.shape) for parameter in parameters]
        norm = isinstance(module, nn.LayerNorm | nn.RMSNorm)
        scores = padded.get(module)
        yield {
            "name": name.removesuffix(".inside").removesuffix(".structure"),
            "scope": scope_of(name, network),
            "structure": structure.name if structure else None,
            "kind": "matrix" if structure else "norm" if norm else "other",
            "count": count,
            "dense": dense * scores.classes // scores.rows if scores else dense,
            "shape": [structure.out_features, structure.in_features] if structure else shapes,
        }


def _dense(structure: Structure) -> int:
    """Return the entries of a structure's matrix: out_features · in_features.

    It is 0 for a structure that updates frozen weights, because the structure inside has its own entry.
    """
    return 0 if structure.adapter else structure.out_features * structure.in_features


def _multiplications(network: nn.Module) -> dict[str, int]:
    """Return the multiplications of all weight matrices for one vector each, by scope.

    They are a mean over 4,096 vectors, rounded down, so the cost of building W is shared. A table that is only looked
    up takes none. Outside of linear layers, W is always built, as for an LSTM's kernel; bilinear structures choose
    themselves.
    """
    by_scope: dict[str, int] = {}
    for name, module in network.named_modules():
        if isinstance(module, Embedding | Structure):
            continue
        for structure in module.children():
            if isinstance(structure, Structure):
                way: Application | None = None if structure.bilinear else "dense"
                number = structure.multiplications(TOKENS, module.application if isinstance(module, Linear) else way)
                scope = scope_of(name, network)
                by_scope[scope] = by_scope.get(scope, 0) + number
    return {scope: number // TOKENS for scope, number in by_scope.items()}
