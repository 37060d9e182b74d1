"""Human-readable names of the keys in a run's files."""

import pytest

from phmrun.ledger.wording import counts_in_words, explained, head, row_name, title


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


def test_each_baseline_is_explained_once():
    lines = explained(["test/uas-of-neighbour", "test/las-of-neighbour", "test/las", "test/accuracy-of-majority-2"])
    assert lines == ["neighbour: each word has the arc that is most frequent for its tag in training"]


def test_counts_have_words_and_units():
    rows = counts_in_words(
        {
            "total": 1200,
            "dense_total": 4800,
            "trained_total": 1200,
            "by_scope": {"arc_mlp": {"count": 300, "dense": 1200}},
            "memory": {"weights": 4_800_000},
            "data": {"splits": {"train": {"sentences": 1000, "unknown_rate": 0.125, "source": {"mean": 4.0}}}},
            "modules": [{"name": "x"}],
        }
    )
    assert rows == [
        ("parameters", "1,200"),
        ("share of the dense network", "25.0%"),
        ("parameters of the dense network", "4,800"),
        ("arc mlp, parameters", "300 (25.0% of dense)"),
        ("memory of weights, 32 bits", "4.8 MB"),
        ("train, sentences", "1,000"),
        ("train, unknown rate", "12.50%"),
        ("train, source mean", "4.00"),
    ]


def test_a_row_is_called_by_its_layer_with_its_options_then_by_what_else_differs():
    labels = {"training.optimizer.lr": "0.003", "layer": "phm", "layer.n": "2", "output": "dense"}
    assert row_name(labels) == "phm n=2, output dense, lr 0.003"
    assert row_name({"layer": "dense", "layer.n": "", "task": "nli"}) == "dense, nli"
    assert row_name({"row": "UD_Latin"}) == "UD_Latin"
