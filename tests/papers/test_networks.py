"""Networks by name: found, built, and refused with what would be right."""

import pytest
import torch

from phmrun.papers.audit import build_network, networks

SMALLEST = {
    "transformer": {"sizes": [8, 8], "width": 8, "feedforward": 8, "heads": 2},
    "sva-encoder": {"sizes": [8, 2]},
    "nli-lstm": {"sizes": [8, 3]},
    "biaffine-parser": {"sizes": [8, 8, 8, 8]},
    "lstm-lm": {"sizes": [8], "width": 8},
    "transformer-xl": {"sizes": [8]},
}


@pytest.mark.parametrize("name", networks())
def test_every_name_builds_without_weights(name):
    with torch.device("meta"):
        network = build_network(name, SMALLEST[name])
    assert all(parameter.is_meta for parameter in network.parameters())


@pytest.mark.parametrize("name", networks())
def test_every_network_takes_a_structure(name):
    with torch.device("meta"):
        dense, phm = (
            sum(parameter.numel() for parameter in build_network(name, {**SMALLEST[name], "layer": layer}).parameters())
            for layer in ({"structure": "dense"}, {"structure": "phm", "n": 2})
        )
    assert phm < dense
