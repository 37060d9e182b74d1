"""Correlation maps by their definition, of every kind of embedding, and of the layers of a deep one."""

import numpy as np
import pytest
import torch
from built_networks import built
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import build_embedding
from phmrun.models.transformer import Transformer
from phmrun.results.plots import correlation
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


def test_a_deep_embedding_has_one_for_each_layer(monkeypatch):
    monkeypatch.setattr(correlation, "CHUNK", 7)
    network = lm(**DEFINE)
    panels = correlation_panels(network)
    assert [panel.title for panel in panels] == ["map", "expansion 1, 4 groups", "expansion 2, 2 groups", "reduction"]
    assert [len(panel.map) for panel in panels] == [8, 24, 32, 16]
    assert [panel.groups for panel in panels] == [1, 4, 2, 1]
    with torch.no_grad():
        words = network.define.mapping(torch.arange(40))
        first = network.define.expand.transforms[0](words.unflatten(1, (4, -1)))
        first = torch.nn.functional.gelu(network.define.expand.norms[0](first))
        tables = [words, first, network.define.expand(words), network.define.weight]
    for panel, table in zip(panels, tables, strict=True):
        np.testing.assert_allclose(panel.map, scaled(table.double().numpy()), atol=1e-5)


def test_tied_embeddings_are_drawn_once():
    sizes = {"width": 16, "feedforward": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    assert [panel.title for panel in correlation_panels(built(Transformer, 40, 40, **sizes))] == ["source embedding"]
    untied = built(Transformer, 40, 32, tie="none", **sizes, embedding=DEFINE)
    assert len(correlation_panels(untied)) == 8


def test_a_network_without_words():
    with pytest.raises(PhmrunError, match="no embedding"):
        correlation_panels(nn.Linear(3, 3))


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


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(PhmrunError, match="does not end as a picture") as caught:
        save_figure(
            draw_correlation([], "nothing") if False else draw_correlation(correlation_panels(lm()), ""),
            tmp_path / "a.gif",
        )
    assert ".svg" in caught.value.valid
