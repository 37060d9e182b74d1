"""Networks with the factors of their structures, for exports."""

import copy
import json
from typing import cast

import torch
from torch import Tensor, nn

from phmrun.layers import LSTM, Embedding, Linear
from phmrun.layers.conversion import attach_report, convert_layers, is_supported
from phmrun.layers.gate_maps import GateMaps
from phmrun.layers.network import share_parameters
from phmrun.layers.report import parameter_count
from phmrun.layers.structure import Structure


@torch.no_grad()
def factored_copy(network: nn.Module, plain: nn.Module) -> nn.Module:
    """Return a copy of ``plain`` with the factors of ``network``.

    Factors are those of linear maps, tables and LSTMs; dense maps stay plain modules. A map stays dense, too, if its
    plain form is not ``nn.Linear``, ``nn.Embedding`` or ``nn.LSTM`` at the same place. So does an LSTM that has other
    gates or options than ``phmrun.layers.convert`` gives it. The same holds for a map whose plain weight is tied to one
    that stays dense.

    Args:
        network: Trained network.
        plain: The same network, folded; it is not changed.

    Returns:
        A model in evaluation mode, without gradients, that :func:`phmrun.layers.save` writes and
        ``load(lambda: plain, path)`` reads.
    """
    duplicate = copy.deepcopy(plain)
    before, places = parameter_count(duplicate), dict(duplicate.named_modules())
    sources = dict(network.named_modules())
    steps: dict[str, tuple[Structure, dict[nn.Module, str]]] = {}
    for name, module in sources.items():
        structure = _structure_of(module)
        place = places.get(name)
        if structure is None or structure.name == "dense" or place is None or not is_supported(place):
            continue
        if isinstance(module, LSTM) and not _same_gates(module, place, structure):
            continue
        key = json.dumps([structure.name, _options(structure)], sort_keys=True, default=str)
        steps.setdefault(key, (structure, {}))[1][place] = name
    owners: dict[int, set[nn.Module]] = {}
    for module in places.values():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(id(parameter), set()).add(module)
    for structure, factored in steps.values():
        chosen = {
            place: name
            for place, name in factored.items()
            if all(owners[id(parameter)] <= factored.keys() for parameter in place.parameters(recurse=False))
        }
        if not chosen:
            continue
        duplicate, records = convert_layers(duplicate, chosen, structure.name, _options(structure))
        attach_report(duplicate, records, before)
        for name in chosen.values():
            _copy_factors(sources[name], duplicate.get_submodule(name))
    share_parameters(duplicate)
    return duplicate.eval().requires_grad_(False)


def weight_bytes(network: nn.Module, plain: nn.Module) -> tuple[int, int]:
    """Return the bytes of exported weights: folded, and with factors.

    Each parameter has 4 bytes; tied ones count once, buffers not.

    Args:
        network: Trained network.
        plain: The same network, folded.
    """
    return 4 * parameter_count(plain), 4 * parameter_count(factored_copy(network, plain))


def _structure_of(module: nn.Module) -> Structure | None:
    """Return the structure of a ``Linear`` or ``Embedding``.

    For an ``LSTM`` it is that of the first map of its first layer, for other modules None.
    """
    if isinstance(module, Linear | Embedding):
        return module.structure
    return cast(Structure, cast(GateMaps, module.cells[0]).input[0]) if isinstance(module, LSTM) else None


def _options(structure: Structure) -> dict[str, object]:
    """Return the options of a structure without ``freeze``.

    That one matters in training only.
    """
    return {name: value for name, value in structure.options.items() if name != "freeze"}


def _same_gates(lstm: LSTM, plain: nn.Module, structure: Structure) -> bool:
    """Return True if a conversion of ``plain`` has the factors of ``lstm``.

    Names and shapes are compared; biases may differ. False if ``plain`` is no ``nn.LSTM``.
    """
    if type(plain) is not nn.LSTM:
        return False
    copied = copy.deepcopy(plain)
    converted, _ = convert_layers(copied, {copied: "lstm"}, structure.name, _options(structure))
    ours, theirs = (
        {name: value.shape for name, value in module.state_dict().items() if not name.endswith(".bias")}
        for module in (lstm, converted)
    )
    return ours == theirs


def _copy_factors(source: nn.Module, target: nn.Module) -> None:
    """Copy the factors and biases of a map or LSTM into ``target``, in place.

    If an LSTM has one bias per gate and ``target`` two, the second becomes 0.
    """
    if not isinstance(source, LSTM):
        target.load_state_dict(source.state_dict())
        return
    state: dict[str, Tensor] = source.state_dict()
    for name, value in target.state_dict().items():
        if name.endswith(".bias"):  # one vector per gate, or two whose sum has an effect
            value.zero_()
            value[: len(state[name])] = state[name]
        else:
            value.copy_(state[name])
