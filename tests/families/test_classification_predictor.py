"""ClassificationModule: the loss and hits by hand, and a classifier whose answers are known."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from built_networks import built
from torch import nn

from phmrun.families.sentence_classification.data import ClassificationBatch
from phmrun.families.sentence_classification.items import ClassificationVocabulary, Item, LeftOut
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import SentenceClassifier
from phmrun.models.sentences import LSTMClassifier, batch_of
from phmrun.text.vocabulary import train_words


class Scores(nn.Module):
    """Logits that a sentence spells out: class k gets the number of tokens with id 4 + k."""

    def __init__(self, classes):
        super().__init__()
        self.classes = classes
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, *sentences):
        tokens = torch.cat([part.tokens for part in sentences], dim=1)
        counts = [(tokens == 4 + number).sum(1) for number in range(self.classes)]
        return torch.stack(counts, dim=1) * self.weight


def batch(rows, labels):
    return ClassificationBatch((batch_of([np.array(row) for row in rows]),), torch.tensor(labels), len(rows), len(rows))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_by_hand(smoothing):
    module = ClassificationModule(Scores(3), None, None, smoothing=smoothing)
    actual = module.train().loss(batch([[4, 4], [5], [5, 6, 6]], [0, 1, 1]))
    logits = torch.tensor([[2.0, 0, 0], [0, 1, 0], [0, 1, 2]])
    log = logits.log_softmax(1)
    nll = -(log[0, 0] + log[1, 1] + log[2, 1])
    torch.testing.assert_close(actual.nll, nll)
    torch.testing.assert_close(actual.total, (1 - smoothing) * nll - smoothing * log.mean(1).sum())
    assert (actual.units, int(actual.hits["accuracy"])) == (3, 2)
    torch.testing.assert_close(module.eval().loss(batch([[4, 4]], [0])).total, -log[0, 0])


WORDS = train_words(["a a a a b b b c c"], size=100)
VOCABULARY = ClassificationVocabulary(WORDS, ("A", "B", "C"))


def classifier(names=("sentence",), **options):
    return SentenceClassifier(Scores(3), VOCABULARY, prompt="a sentence", names=names, **options)


def test_answers():
    answers = list(classifier().predict(["a a", "", "b c c"]))
    share = torch.tensor([2.0, 0, 0]).softmax(0).tolist()
    assert answers[0].text == f"A\t{share[0]:.4f}"
    assert answers[0].values["prediction"] == "A"
    assert answers[0].values["probability"] == pytest.approx(share[0], abs=1e-6)
    assert answers[0].values["probabilities"] == pytest.approx({"A": share[0], "B": share[1], "C": share[2]}, abs=1e-6)
    assert answers[1].values["probabilities"] == pytest.approx({"A": 1 / 3, "B": 1 / 3, "C": 1 / 3}, abs=1e-6)
    assert answers[2].text.startswith("C\t")


def test_scores_of_a_split():
    items = [
        Item(("a",), "A", "easy"),
        LeftOut("no gold label", 2),
        Item(("b b",), "A", "hard"),
        Item(("c",), "C", "easy"),
        Item(("c b",), "B"),
    ]
    corpus = SimpleNamespace(reading={"format": "mine"}, baselines={"b": lambda items: ["B"] * len(items)})
    data = SimpleNamespace(files={"test": lambda: iter(items)}, corpus=corpus)
    actual = classifier(weights="best@7", batch=2).evaluate(data, "test")
    assert {name: score.value for name, score in actual.scores.items()} == {
        "accuracy": 75.0,
        "accuracy-easy": 100.0,
        "accuracy-hard": 0.0,
        "accuracy-of-b": 25.0,
        "accuracy-of-b-easy": 0.0,
        "accuracy-of-b-hard": 0.0,
        "accuracy-of-majority": 50.0,
        "accuracy-of-majority-easy": 50.0,
        "accuracy-of-majority-hard": 100.0,
    }
    assert actual.scores["accuracy"].signature == "labels:A+B+C|no-gold-label:2|ci:wilson95|format:mine|weights:best@7"
    assert actual.scores["accuracy-of-b"].signature == "labels:A+B+C|no-gold-label:2|ci:wilson95|format:mine"
    assert actual.scores["accuracy-of-majority"].signature == "always:A|no-gold-label:2|format:mine"
    rows = [line.split("\t") for line in actual.predictions.splitlines()]
    assert rows[0] == ["predicted", "probability", "label", "part"]
    assert [(row[0], row[2], row[3]) for row in rows[1:]] == [
        ("A", "A", "easy"),
        ("B", "A", "hard"),
        ("C", "C", "easy"),
        ("B", "B", ""),
    ]
    assert (actual.ending, actual.items, actual.units, actual.unit) == ("tsv", 4, 10, "tokens")
    assert actual.columns == ("sentence", "label", "predicted", "probability")
    assert actual.samples[0][:3] == ("a", "A", "A")


@torch.no_grad()
def test_neither_batches_nor_their_order_change_an_answer():
    torch.manual_seed(0)
    network = built(
        LSTMClassifier, len(WORDS), 3, width=8, hidden=8, mlp=6, layer={"structure": "phm", "n": 2}
    ).double()
    items = [("a " * (1 + n % 5), "b c " * (n % 4)) for n in range(23)]
    settings = {"prompt": "", "names": ("premise", "hypothesis")}
    whole = SentenceClassifier(network, VOCABULARY, **settings).classify(items).probabilities
    for size in (1, 4, 7):
        parts = SentenceClassifier(network, VOCABULARY, batch=size, **settings).classify(items).probabilities
        np.testing.assert_allclose(parts, whole, atol=1e-7)
    direct = [
        network(*(batch_of([np.array(VOCABULARY.encode(text), dtype=np.int64)]) for text in pair)).softmax(1)[0]
        for pair in items
    ]
    np.testing.assert_allclose(torch.stack(direct).numpy(), whole, atol=1e-6)
