"""The parser: shapes, padding, gradients, and the components' counts by hand."""

import pytest
import torch

from phmrun.models.biaffine_parser import BiaffineParser

SIZES = {
    "word_width": 6,
    "tag_width": 4,
    "letter_width": 4,
    "letter_hidden": 4,
    "hidden": 8,
    "layers": 2,
    "arc_width": 8,
    "label_width": 4,
}
WORDS = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 0]])
TAGS = torch.tensor([[1, 2, 3, 4], [1, 4, 2, 0]])
LETTERS = torch.randint(1, 9, (2, 4, 5), generator=torch.Generator().manual_seed(0))
COUNTS = torch.tensor([[1, 3, 5, 2], [1, 2, 4, 1]])
LENGTHS = torch.tensor([4, 3])


def build(**options):
    torch.manual_seed(0)
    return BiaffineParser(12, 6, 9, 5, **{**SIZES, **options}).double().eval()


@pytest.mark.parametrize("structure", ["dense", "symmetric", "circulant"])
def test_scores_of_arcs_and_labels(structure):
    network = build(classifier={"structure": structure})
    scores = network(WORDS, TAGS, LETTERS, COUNTS, LENGTHS)
    assert scores.arcs.shape == (2, 4, 4)
    labels = network.label_scores(scores, torch.tensor([[0, 0, 1, 1], [0, 2, 0, 0]]))
    assert labels.shape == (2, 4, 5)
    pair = network.label_classifier(scores.dependents, scores.heads)  # all pairs
    torch.testing.assert_close(labels[0, 2], pair[0, :, 2, 1])
    (scores.arcs.sum() + labels.sum()).backward()
    silent = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    assert silent == []


def test_padding_changes_nothing():
    network = build()
    together = network(WORDS, TAGS, LETTERS, COUNTS, LENGTHS)
    alone = network(WORDS[1:, :3], TAGS[1:, :3], LETTERS[1:, :3], COUNTS[1:, :3], LENGTHS[1:])
    torch.testing.assert_close(together.arcs[1:, :3, :3], alone.arcs)


def test_letters_after_the_last_are_not_read():
    network = build()
    changed = LETTERS.clone()
    changed[0, 1, 3:] = 8
    first, second = (network.read_letters(letters, COUNTS) for letters in (LETTERS, changed))
    torch.testing.assert_close(first, second)


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("structure", "arc", "label"),
    [
        ("dense", 400**2 + 400, 37 * (100**2 + 2 * 100 + 1)),
        ("symmetric", 400 * 3, 37 * 300),
        ("circulant", 400 * 3, 37 * 300),
    ],
)
def test_the_papers_components(structure, arc, label):
    with torch.device("meta"):
        network = BiaffineParser(10, 10, 10, 37, letter_width=200, classifier={"structure": structure})
    assert size(network.arc_classifier) == arc
    assert size(network.label_classifier) == label
    assert size(network.letter_lstm) == 3 * 200 * (200 + 200 + 2)
    assert size(network.lstm) == 2 * 3 * 200 * (200 + 200 + 2) + 2 * (2 * 3 * 200 * (400 + 200 + 2))
    assert size(network.arc_mlp) == 2 * 400 * 401
    assert size(network.label_mlp) == 2 * 100 * 401
