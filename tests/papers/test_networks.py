"""Networks by name: found, built, and refused with what would be right."""

import pytest
import torch

from phmrun.errors import PhmrunError
from phmrun.papers.audit import build_network, networks

SMALLEST = {
    "transformer": {"source_size": 8, "target_size": 8, "width": 8, "inner": 8, "heads": 2},
    "sva-encoder": {"vocabulary": 8},
    "nli-lstm": {"vocabulary": 8},
    "biaffine-parser": {"words": 8, "tags": 8, "characters": 8, "labels": 8},
    "lstm-lm": {"vocabulary": 8, "width": 8},
    "transformer-xl": {"vocabulary": 8},
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


def test_mistakes():
    with pytest.raises(PhmrunError, match="there is no network 'lstm'") as caught:
        build_network("lstm", {})
    assert "lstm-lm" in caught.value.valid
    with pytest.raises(PhmrunError, match="no argument of the network 'lstm-lm' 'widht'") as caught:
        build_network("lstm-lm", {"vocabulary": 8, "widht": 1}, where="here")
    assert "width" in (caught.value.hint or "")
    assert caught.value.where == "here"
    with pytest.raises(PhmrunError, match="needs words, tags, characters, labels"):
        build_network("biaffine-parser", {})
