"""The papers' networks by name, each built from plain arguments. Imports no torch until one is built."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from phmrun.errors import PhmrunError, unknown

if TYPE_CHECKING:
    from torch import nn

NETWORKS = {
    "transformer": "phmrun.models.transformer:Transformer",
    "sva-encoder": "phmrun.tasks.sva.encoder_classifier:EncoderClassifier",
    "nli-lstm": "phmrun.models.lstm_classifier:LSTMClassifier",
    "biaffine-parser": "phmrun.tasks.parse.biaffine_parser:BiaffineParser",
    "lstm-lm": "phmrun.tasks.lm.lstm:LSTMLanguageModel",
    "transformer-xl": "phmrun.tasks.lm.transformer_xl:TransformerXL",
}
"""Where each network's class, or the function that builds it, is found."""


def build_network(name: str, arguments: Mapping[str, Any], *, where: str | None = None) -> "nn.Module":
    """A network on the current default device.

    Args:
        name: One of :data:`NETWORKS`.
        arguments: Keyword arguments of its constructor.
        where: The place that asks for it, for messages.

    Raises:
        PhmrunError: Unknown network or argument, a missing argument, or values that do not go together.
    """
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS, where=where)
    module, _, attribute = NETWORKS[name].partition(":")
    build: Callable[..., nn.Module] = getattr(importlib.import_module(module), attribute)
    parameters = inspect.signature(build).parameters
    for argument in arguments:
        if argument not in parameters:
            raise unknown(f"argument of the network {name!r}", argument, parameters, where=where)
    required = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
    missing = [key for key in required if key not in arguments]
    if missing:
        raise PhmrunError(f"the network {name!r} needs {', '.join(missing)}", where=where)
    network = build(**arguments)
    from phmrun.layers import share_parameters

    share_parameters(network)
    return network
