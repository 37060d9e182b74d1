"""Construction of the registry's networks for a configuration."""

import inspect
from typing import Any, cast

from torch import nn

from phmrun.errors import PhmrunError
from phmrun.registry import networks


def build_network(family: str, config: Any, *sizes: int) -> nn.Module:
    """Build the network that ``model.network`` names.

    Args:
        family: Family of networks, as in :func:`phmrun.registry.networks`.
        config: Resolved config; a network class gets its model section and structures, a function all of it.
        *sizes: Sizes of vocabularies, and numbers of classes.

    Raises:
        PhmrunError: There is no such network in the family, it takes other arguments, or sizes and structures do not
            fit.
    """
    model: Any = config.model
    network: Any = networks(family).get(model.network, where="model.network")
    arguments = (model, sizes, config.structures) if isinstance(network, type) else (config, *sizes)
    try:
        inspect.signature(network).bind(*arguments)
    except TypeError as error:
        form = "Network(options, sizes, structures)" if isinstance(network, type) else "build(config, *sizes)"
        what = f"the network {model.network!r} cannot be called as {form}: {error}"
        hint = "`phmrun new network NAME` writes one that works."
        raise PhmrunError(what, where="model.network", hint=hint) from error
    built: nn.Module = cast(Any, network)(*arguments)
    return built
