"""Networks from keyword arguments: their options, and the structure of each place."""

from collections.abc import Mapping
from typing import Any, TypeVar

from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def built(
    network: type[Network],
    *sizes: int,
    layer: Mapping[str, Any] | None = None,
    embedding: Mapping[str, Any] | None = None,
    output: Mapping[str, Any] | None = None,
    **options: Any,
) -> Network:
    """The network with these sizes of vocabularies, options and structures; all else is the default.

    What is no option is a keyword of the network itself.
    """
    places = {"layer": layer, "embedding": embedding, "output": output}
    structures = {place: structure for place, structure in places.items() if structure is not None}
    ours = {name: options.pop(name) for name in list(options) if name not in network.options.model_fields}  # type: ignore[attr-defined]
    return network(network.options(**options), sizes, structures, **ours)  # type: ignore[attr-defined, call-arg]
