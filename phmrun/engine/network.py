"""Construction of the registry's networks for a configuration."""

from typing import Any, cast

from torch import nn

from phmrun.registry import networks


def build_network(family: str, config: Any, *sizes: int) -> nn.Module:
    """Build the network that ``model.network`` names.

    Args:
        family: Family of networks, as in :func:`phmrun.registry.networks`.
        config: Resolved config; a network class gets its model section and structures, a function all of it.
        *sizes: Sizes of vocabularies, and numbers of classes.

    Raises:
        PhmrunError: There is no such network in the family, or sizes and structures do not fit.
    """
    model: Any = config.model
    network: Any = networks(family).get(model.network, where="model.network")
    if isinstance(network, type):
        built: nn.Module = cast(Any, network)(model, sizes, config.structures)
    else:
        built = network(config, *sizes)
    return built
