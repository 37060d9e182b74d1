"""The structures of a network by name, and others in their places."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from phmrun.errors import PhmrunError, nearest
from phmrun.layers.linear import Linear
from phmrun.layers.structure import Structure, build_structure


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
