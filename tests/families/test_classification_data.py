"""Labelled sentences as training batches: every item once an epoch, from any step on, shared between processes."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from test_classification_items import Pairs

from phmrun.families.sentence_classification.data import ClassificationBatches, ClassificationCorpus, ClassificationData
from phmrun.families.sentence_classification.items import Item
from phmrun.text.batches import Batch
from phmrun.text.vocabulary import EOS, PAD

ITEMS = [Item((f"w{n} " * (1 + n % 7), f"v{n} " * (n % 4)), "ab"[n % 2]) for n in range(50)]


@pytest.fixture
def data_of(tmp_path):
    source = tmp_path / "items"
    source.write_text("x")
    readers = {"train": lambda: ITEMS, "dev": lambda: ITEMS[:9], "test": lambda: ITEMS[:5]}

    def build(accumulate=1, seed=3, workers=0, **batch):
        config = Pairs(
            classes=("a", "b"),
            data={"max_length": 20, "vocabulary": {"multiple_of": 1}},
            batch={"unit": "sentences", "size": 8, **batch},
            training={"accumulate": accumulate},
            seed=seed,
            hardware={"workers": workers},
        )
        corpus = ClassificationCorpus(readers, {"items": source}, {"items": "sum"})
        return ClassificationData(config, corpus, tmp_path / "cache")

    return build


def firsts(batch):
    """Identity of an item: the first word of its first sentence."""
    return batch.sentences[0].tokens[:, 0].tolist()


def test_a_batch_of_items_by_hand():
    sides = [[np.array([7, 8]), np.array([9])], [np.array([], dtype=np.uint16), np.array([5])]]
    store = SimpleNamespace(sentences=sides, labels=np.array([1, 0]))
    batch = ClassificationBatches(store)[Batch(4, np.array([1, 0]), 9)]
    first, second = batch.sentences
    assert first.tokens.tolist() == [[9, EOS, PAD], [7, 8, EOS]]
    assert second.tokens.tolist() == [[5, EOS], [EOS, PAD]]
    assert first.lengths.tolist() == [2, 3]
    assert second.mask.tolist() == [[[[True, True]]], [[[True, False]]]]
    assert batch.labels.tolist() == [0, 1]
    assert (batch.units, batch.window_units) == (2, 9)


@pytest.mark.parametrize("unit", ["sentences", "tokens"])
def test_every_item_once_an_epoch(data_of, unit):
    data = data_of(unit=unit, size=8 if unit == "sentences" else 30)
    stream = iter(data.train_dataloader())
    words = sorted(data.vocabulary.encode(item.sentences[0])[0] for item in ITEMS)
    epochs = [[firsts(batch) for batch in itertools.islice(stream, len(data.plan))] for _ in range(2)]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        assert sorted(itertools.chain(*epoch)) == words
    assert sum(batch.units for batch in data.validation_batches()) == 9


def test_processes_share_the_items(data_of):
    seen = []
    for rank in (0, 1):
        data = data_of()
        data.trainer = SimpleNamespace(global_rank=rank, world_size=2)
        seen.append(list(itertools.chain(*(firsts(batch) for batch in data.validation_batches()))))
        assert data.steps_in_epochs(2, 2) == len(data.plan)
    assert sorted(seen[0] + seen[1]) == sorted(data.vocabulary.encode(item.sentences[0])[0] for item in ITEMS[:9])
