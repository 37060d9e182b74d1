"""Correlation maps by their definition, of every kind of embedding, and of the layers of a deep one."""

import numpy as np
import pytest
import torch
from built_networks import built
from torch import nn

from phmrun.layers import build_embedding
from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.correlation import correlation_map, correlation_panels, draw_correlation
from phmrun.tasks.lm.lstm import LSTMLanguageModel

DEFINE = {"structure": "define", "depth": 2, "expansion": 32, "max_groups": 4, "multiple_of": 8, "width": 8}


def scaled(table):
    """EᵀE, one entry at a time, between 0 and 1."""
    rows, width = table.shape
    product = np.array(
        [[sum(table[v, i] * table[v, j] for v in range(rows)) for j in range(width)] for i in range(width)]
    )
    return (product - product.min()) / (product.max() - product.min())


def test_the_map_of_a_table_in_pieces():
    table = torch.randn(11, 4)
    np.testing.assert_allclose(correlation_map(iter(table.split(3))), scaled(table.double().numpy()), atol=1e-12)
    assert not correlation_map(iter([torch.zeros(3, 2)])).any()


def lm(**embedding):
    torch.manual_seed(0)
    return built(LSTMLanguageModel, 40, width=16, hidden=24, layers=2, embedding=embedding)


@pytest.mark.parametrize(
    "embedding", [{}, {"structure": "phm", "n": 2}, {"structure": "projective", "width": 4}], ids=str
)
def test_an_embedding_has_one_map(embedding):
    network = lm(**embedding)
    (panel,) = correlation_panels(network)
    assert (panel.title, panel.groups) == ("embedding", 1)
    np.testing.assert_allclose(panel.map, scaled(network.embedding.weight.detach().double().numpy()), atol=1e-6)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_picture(ending, tmp_path):
    path = tmp_path / f"map.{ending}"
    network = nn.ModuleDict({"embedding": build_embedding(40, 16, structure="dense")})
    if ending == "png":
        network["define"] = lm(**DEFINE).define
    save_figure(draw_correlation(correlation_panels(network), "a run"), path)
    content = path.read_bytes()
    assert content[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")
    save_figure(draw_correlation(correlation_panels(network), "a run"), path)
    assert path.read_bytes() == content, "the same content gives the same file"
