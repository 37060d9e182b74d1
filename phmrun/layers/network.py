"""The structures of a whole network: found by name, replaced by others, tied to one another.

A structure that has an option ``share`` and names parameters in ``shareable`` takes part in tying. In a finished
network those parameters are made the same object in every map that shares, as tied embeddings are: counted once,
trained once, moved and copied together. A state dict holds them under every map's name; loading it keeps them tied.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

from torch import nn

from phmrun.errors import PhmrunError, nearest
from phmrun.layers.adaptive import AdaptiveInput, TiedOutput
from phmrun.layers.define import DeFINE
from phmrun.layers.embedding import Embedding
from phmrun.layers.linear import Linear
from phmrun.layers.structure import Structure, build_structure

Structures = Mapping[str, Mapping[str, Any]]
"""Structure and options of each part of a network: ``{"layer": {"structure": "phm", "n": 8}}``; left out: dense."""
DENSE: Mapping[str, Any] = {"structure": "dense"}


def structures_of(network: nn.Module) -> dict[str, Structure]:
    """Every structure of a network once, by the name of the module that it belongs to."""
    return {
        name.removesuffix(".structure"): module
        for name, module in network.named_modules()
        if isinstance(module, Structure)
    }


def replace_structures(network: nn.Module, layers: Mapping[str, Mapping[str, Any]]) -> None:
    """Gives some maps of a network another structure, in place.

    Args:
        network: The network.
        layers: ``{"structure": …, option: …}`` by name, as in :func:`structures_of`.

    Raises:
        PhmrunError: There is no such map, or the structure does not fit it.
    """
    found = structures_of(network)
    for name, layer in layers.items():
        if name not in found:
            close = " or ".join(nearest(name, found))
            raise PhmrunError(f"the network has no map {name!r}", where="maps", hint=f"Did you mean {close}?")
        set_structure(network, name, made_for(found[name], layer))


def made_for(old: Structure, layer: Mapping[str, Any]) -> Structure:
    """A new structure of an old one's sizes."""
    options = dict(layer)
    return build_structure(options.pop("structure"), old.out_features, old.in_features, **options)


def set_structure(network: nn.Module, name: str, structure: Structure) -> None:
    """Puts a structure in the place of another one, wherever that stands."""
    old = structures_of(network)[name]
    for parent in list(network.modules()):
        for key, child in list(parent._modules.items()):
            if child is old:
                parent._modules[key] = structure
                if isinstance(parent, Linear):
                    parent.application = structure.application


Share = Literal["none", "model", "kind"]


def share_parameters(network: nn.Module) -> None:
    """Ties the shared parameters of all maps in ``network`` that have the same structure and options.

    "model": all of them share. "kind": those that stand in the same place of every layer do, such as all output maps
    of the encoder's attention; the place is the module's path without its numbers.

    Args:
        network: A finished network. ``Transformer`` and the training module of every task do this to theirs; for a
            network of your own, call it once all its modules are built.
    """
    owners: dict[object, Structure] = {}
    for path, module in network.named_modules():
        if not isinstance(module, Structure) or module.options.get("share", "none") == "none":
            continue
        options = tuple(sorted((name, repr(value)) for name, value in module.options.items()))
        owner = owners.setdefault((type(module), options, place(path, module.options["share"])), module)
        for name in module.shareable:
            setattr(module, name, getattr(owner, name))


def place(path: str, share: Share) -> str:
    """What maps that share have in common: "" or, for "kind", the path with a * for each number."""
    return "" if share == "model" else ".".join("*" if part.isdigit() else part for part in path.split("."))


def tied_output(in_features: int, embedding: nn.Module, bias: bool = False, **structure: Any) -> Linear | TiedOutput:
    """The output map that shares with ``embedding`` what it can: its structure, or its words' own vectors.

    Args:
        in_features: Size of a hidden vector.
        embedding: From :func:`phmrun.layers.embedding.build_embedding`.
        bias: Whether there is a bias.
        **structure: Structure of the maps that the output has of its own, and its options.
    """
    if isinstance(embedding, Embedding):
        return Linear(in_features, embedding.num_embeddings, bias, structure=embedding.structure)
    words = embedding.mapping if isinstance(embedding, DeFINE) else embedding
    return TiedOutput(in_features, cast(AdaptiveInput, words), bias, **structure)
