"""The parser's loss by hand, and that it learns a small language."""

import torch
from tiny_parser import learn, prepared
from torch.nn import functional as F

from phmrun.tasks.parse.vocabulary import NO_LABEL

STILL = {"model": {"dropout": 0.0, "recurrent_dropout": 0.0, "embedding_dropout": 0.0}}


def by_hand(module, batch, smoothing=0.0):
    """Loss, right heads, and right heads with right labels, word by word."""
    scores = module.network(*batch.inputs)
    lengths = batch.inputs[-1].tolist()
    total, uas, las = torch.zeros(()), 0, 0
    for row, length in enumerate(lengths):
        for word in range(1, length):
            arcs, head, label = scores.arcs[row, word, :length], batch.heads[row, word], batch.labels[row, word]
            pairs = module.network.label_classifier(scores.dependents[row : row + 1], scores.heads[row : row + 1])
            total = total + F.cross_entropy(arcs, head)
            if label != NO_LABEL:
                total = total + F.cross_entropy(pairs[0, :, word, head], label, label_smoothing=smoothing)
            right = arcs.argmax() == head
            uas += int(right)
            las += int(right and pairs[0, :, word, head].argmax() == label)
    return total, uas, las


def test_the_loss_is_that_of_heads_plus_that_of_labels(tmp_path):
    data, module = prepared(tmp_path, STILL)
    batch = next(iter(data.train_dataloader()))
    loss = module.train().loss(batch)
    expected, _, _ = by_hand(module, batch)
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.nll, expected)
    assert loss.units == batch.units
    assert not loss.hits


def test_the_penalty_of_fixed_vectors_is_added_for_each_word_and_only_in_training(tmp_path):
    data, module = prepared(
        tmp_path, STILL, {"model": {"fixed_width": 8}, "data": {"vocabulary": {"min_frequency": 30}}}
    )
    assert len(data.vocabulary.rare) == data.vocabulary.sizes[-1] > 0
    batch = next(iter(data.train_dataloader()))
    plain, _, _ = by_hand(module, batch)
    penalty = module.network.penalty()
    assert penalty > 0.1
    loss = module.train().loss(batch)
    torch.testing.assert_close(loss.total, plain + batch.units * penalty)
    torch.testing.assert_close(loss.nll, plain)
    torch.testing.assert_close(module.eval().loss(batch).total, plain)


def test_validation_counts_right_heads_and_labels(tmp_path):
    data, module = prepared(tmp_path)
    module.eval()
    for number, batch in enumerate(data.validation_batches()):
        loss = module.loss(batch)
        expected, uas, las = by_hand(module, batch)
        torch.testing.assert_close(loss.nll, expected)
        assert {name: int(hits) for name, hits in loss.hits.items()} == {"uas": uas, "las": las}
        if number == 2:
            break


def test_it_learns_a_small_language(tmp_path):
    data, module = prepared(tmp_path, STILL, {"output": {"structure": "symmetric"}})
    learn(data, module, steps=100, rate=0.005)
    losses = [module.eval().loss(batch) for batch in data.validation_batches()]
    assert sum(int(loss.hits["las"]) for loss in losses) / sum(loss.units for loss in losses) > 0.8
