"""Networks with the factors of their structures, for exports."""

import copy
import json
from collections.abc import Mapping
from typing import cast

import torch
from torch import nn

from phmrun.layers import LSTM, Embedding, Linear
from phmrun.layers.conversion import attach_report, convert_layers, is_replaceable
from phmrun.layers.gate_maps import GateMaps
from phmrun.layers.network import structures_of
from phmrun.layers.recurrence import StartedLSTM
from phmrun.layers.report import parameter_count
from phmrun.layers.structure import Structure


@torch.no_grad()
def factored_copy(network: nn.Module, plain: nn.Module) -> nn.Module:
    """Return a copy of ``plain`` with the factors of ``network``.

    Factors are those of linear maps, tables, biaffine forms and LSTMs; dense ones and frozen ones with an update stay
    plain modules, except LSTMs with coupled gates, which keep three of four. A map stays dense, too, if it has no dense
    counterpart at the same place, or if its plain weight is tied to one that stays dense. So does an LSTM whose plain
    form is no ``nn.LSTM`` or ``StartedLSTM``.

    Args:
        network: Trained network.
        plain: The same network, folded; it is not changed.

    Returns:
        A model in evaluation mode, without gradients, that :func:`phmrun.layers.save` writes and
        ``load(lambda: plain, path)`` reads.
    """
    duplicate = copy.deepcopy(plain)
    before, sources = parameter_count(duplicate), dict(network.named_modules())
    duplicate = _with_gates(duplicate, sources, before)
    places = dict(duplicate.named_modules())
    steps: dict[str, tuple[Structure, dict[nn.Module, str]]] = {}
    for name, module in sources.items():
        structure = module.structure if isinstance(module, Linear | Embedding) else module
        place = places.get(name)
        if not isinstance(structure, Structure) or structure.name in ("dense", "added") or place is None:
            continue
        if not is_replaceable(place):
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
            duplicate.get_submodule(name).load_state_dict(sources[name].state_dict())
    return duplicate.eval().requires_grad_(False)


def has_factors(network: nn.Module) -> bool:
    """True if a file can keep factors of a network: dense matrices have none, updates are added to frozen ones."""
    structures = structures_of(network).values()
    merged = {id(part) for structure in structures if structure.name == "added" for part in structure.modules()}
    return any(structure.name != "dense" and id(structure) not in merged for structure in structures)


def weight_bytes(network: nn.Module, plain: nn.Module) -> tuple[int, int]:
    """Return the bytes of exported weights: folded, and with factors.

    Each parameter has 4 bytes; tied ones count once, buffers not.

    Args:
        network: Trained network.
        plain: The same network, folded.
    """
    return 4 * parameter_count(plain), 4 * parameter_count(factored_copy(network, plain))


def _options(structure: Structure) -> dict[str, object]:
    """Return the options of a structure without ``freeze``.

    That one matters in training only.
    """
    return {name: value for name, value in structure.options.items() if name != "freeze"}


def _with_gates(plain: nn.Module, sources: Mapping[str, nn.Module], before: int) -> nn.Module:
    """Convert LSTMs to phmrun's with the gates of ``sources``, in place; return the network.

    Only LSTMs with a structured map or coupled gates are converted: the plain form of coupled gates has a fourth one.
    Dense maps, biases and first states are those of ``sources``; structured maps are dense and random for now. Of two
    bias vectors a gate, the second is 0 if the source has one.

    Args:
        plain: Folded network.
        sources: Modules of the trained network by name.
        before: Parameters of the folded network, for the report.
    """
    places = dict(plain.named_modules())
    for name, lstm in sources.items():
        if not isinstance(lstm, LSTM) or type(places.get(name)) not in (nn.LSTM, StartedLSTM):
            continue
        cell = cast(GateMaps, lstm.cells[0])
        if not cell.coupled and all(part.name == "dense" for part in lstm.modules() if isinstance(part, Structure)):
            continue
        options = {"maps": "stacked" if len(cell.input) == 1 else "gate", "coupled": cell.coupled}
        plain, records = convert_layers(plain, {places[name]: name}, "dense", options)
        attach_report(plain, records, before)
        state = lstm.state_dict()
        for entry, value in plain.get_submodule(name).state_dict().items():
            if entry.endswith(".bias"):  # one vector per gate, or two whose sum has an effect
                value.zero_()
            if entry in state:
                value[: len(state[entry])] = state[entry]
    return plain
