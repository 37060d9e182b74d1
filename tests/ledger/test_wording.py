"""Human-readable names of the keys in a run's files."""

import pytest

from phmrun.ledger.directory import layer_label
from phmrun.ledger.wording import head, row_name, score_row, title


@pytest.mark.parametrize(
    ("score", "words"),
    [
        ("val/perplexity", "validation perplexity"),
        ("val/accuracy", "validation accuracy (%)"),
        ("test/bleu", "test BLEU"),
        ("test/accuracy-of-bag-of-words", "test accuracy of bag-of-words (%)"),
        ("test/las-2", "test LAS 2 (%)"),
        ("train/loss", "training loss (nats)"),
        ("something_new", "something new"),
    ],
)
def test_titles_of_scores(score, words):
    assert title(score) == words


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("layer", "Layer"),
        ("layer.n", "n"),
        ("parameters", "Params"),
        ("test/bleu", "BLEU"),
        ("test/accuracy", "Accuracy (%)"),
        ("training.optimizer.lr", "Learning rate"),
        ("BLEU", "BLEU"),
    ],
)
def test_heads_of_columns(column, words):
    assert head(column) == words


def test_a_row_is_called_by_its_layer_with_its_options_then_by_what_else_differs():
    labels = {"training.optimizer.lr": "0.003", "layer": "phm", "layer.n": "2", "output": "dense"}
    assert row_name(labels) == "phm n=2, output dense, lr 0.003"
    assert row_name({"layer": "dense", "layer.n": "", "task": "nli"}) == "dense, nli"
    assert row_name({"row": "UD_Latin"}) == "UD_Latin"


@pytest.mark.parametrize(
    ("layer", "label"),
    [
        ({"structure": "phm", "n": 8, "variant": "released"}, "phm n=8"),
        ({"structure": "low-rank", "rank": 0, "budget": "1/4"}, "low-rank budget=1/4"),
        ({"structure": "added", "of": "low-rank", "options": "rank=4", "scale": 1.0}, "added low-rank rank=4"),
    ],
)
def test_a_layer_is_called_by_what_tells_it_from_others(layer, label):
    assert layer_label(layer) == label


def test_a_score_without_a_unit_shows_none():
    assert score_row("validation/best", {"value": 3.5, "unit": "", "step": 500})[2] == "step 500"
