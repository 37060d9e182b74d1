"""Structures of a whole network: lookup by name and replacement, and tied output maps."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

from torch import nn

from phmrun.errors import PhmrunError, nearest
from phmrun.layers.adaptive import AdaptiveInput, TiedOutput
from phmrun.layers.define import DeFINE
from phmrun.layers.embedding import Embedding
from phmrun.layers.linear import Linear, linear_std
from phmrun.layers.structure import Structure, build_structure, build_weight
from phmrun.registry import FREEZE

Structures = Mapping[str, Mapping[str, Any]]
"""Structure and options by part of a network: ``{"layer": {"structure": "phm", "n": 8}}``; default: dense."""
DENSE: Mapping[str, Any] = {"structure": "dense"}
APART = ("embedding", "output")
"""Sections of the configuration whose matrices are none of ``layer``."""


def structures_of(network: nn.Module) -> dict[str, Structure]:
    """Return the structures of a network by the name of their module.

    The ending ".structure" of a name is cut. A shared structure has one entry, under its first name.
    """
    return {
        name.removesuffix(".structure"): module
        for name, module in network.named_modules()
        if isinstance(module, Structure)
    }


def replace_structures(network: nn.Module, layers: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace the structure of some maps of a network, in place.

    Modules that share a structure share the new one. Off the meta device, it is drawn with the standard deviation of
    the matrix that it replaces. It is not trained if that matrix is frozen, unless by its layer's ``freeze``.

    Args:
        network: Network to change.
        layers: ``{"structure": …, option: …}`` by name, as in :func:`structures_of`, or by a pattern of names such as
            "encoder.*.expand", which fits no structure inside another; of several, the last one counts.

    Raises:
        PhmrunError: A map does not exist, or a structure does not fit it; maps before it are replaced.
    """
    structures = structures_of(network)
    outer = [name for name in structures if not any(name.startswith(f"{other}.") for other in structures)]
    for pattern, layer in layers.items():
        names = [pattern] if pattern in structures else [name for name in outer if fnmatchcase(name, pattern)]
        if not names:
            close = " or ".join(nearest(pattern, structures))
            hint = f"Did you mean {close}?" if close else None
            raise PhmrunError(f"the network has no map {pattern!r}", where="maps", hint=hint)
        for name in names:
            old, new = structures[name], made_for(structures[name], layer)
            if not next(new.parameters()).is_meta:
                new.reset_parameters(float(build_weight(old).detach().std()) or linear_std(old.in_features))
            if FREEZE not in old.options and not any(parameter.requires_grad for parameter in old.parameters()):
                new.requires_grad_(False)
            set_structure(network, name, new)


def made_for(old: Structure, layer: Mapping[str, Any]) -> Structure:
    """Build a structure with the sizes of ``old``.

    ``layer`` has its name under "structure", and its options. Its parameters are not initialized.

    Raises:
        PhmrunError: The structure is unknown or does not fit.
    """
    options = dict(layer)
    return build_structure(options.pop("structure"), old.out_features, old.in_features, **options)


def set_structure(network: nn.Module, name: str, structure: Structure) -> None:
    """Replace the structure called ``name`` in all modules that hold it, in place.

    ``Linear`` modules also get the structure's ``application``. The new structure keeps its parameters as they are.

    Raises:
        KeyError: The network has no such structure.
    """
    old = structures_of(network)[name]
    for parent in list(network.modules()):
        for key, child in list(parent._modules.items()):
            if child is old:
                parent._modules[key] = structure
                if isinstance(parent, Linear):
                    parent.application = structure.application


def scope_of(name: str, network: nn.Module | None = None) -> str:
    """Return a module's part of the network: "encoder", "decoder", "embedding", "output", ….

    It is that of the module or of one around it in the network's attribute ``scopes``, such as
    ``{"model.lm_head": "output"}``. Otherwise it is the first part of the name, without the ending "_norm" or
    "_positions". A first part that ends with "embedding" is "embedding".
    """
    for module, scope in getattr(network, "scopes", {}).items():
        if f"{name}.".startswith(f"{module}."):
            return str(scope)
    first = name.partition(".")[0]
    return "embedding" if first.endswith("embedding") else first.removesuffix("_norm").removesuffix("_positions")


def section_of(name: str, network: nn.Module) -> str:
    """Return the section of the configuration that names a matrix's structure: "layer", "embedding" or "output".

    The network's attribute ``sections`` names those of further scopes: ``{"tags": "embedding"}``.
    """
    scope = scope_of(name, network)
    section: str = getattr(network, "sections", {}).get(scope, scope)
    return section if section in APART else "layer"


def tied_output(in_features: int, embedding: nn.Module, bias: bool = False, **structure: Any) -> Linear | TiedOutput:
    """Build an output map that shares the embedding's structure or word vectors.

    Args:
        in_features: Size of a hidden vector.
        embedding: Result of :func:`phmrun.layers.embedding.build_embedding`.
        bias: Add a bias.
        **structure: Structure and options of a projection to the width of the word vectors, if that is not
            ``in_features``. An ``Embedding`` needs none and ignores them.

    Returns:
        :class:`Linear` for an ``Embedding``, otherwise :class:`TiedOutput`.
    """
    if isinstance(embedding, Embedding):
        return Linear(in_features, embedding.num_embeddings, bias, structure=embedding.structure)
    words = embedding.mapping if isinstance(embedding, DeFINE) else embedding
    return TiedOutput(in_features, cast(AdaptiveInput, words), bias, **structure)
