"""Labelled sentences: the stores hold them, the statistics are those of a count, shares of a file never overlap."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.families.sentence_classification.config import ClassificationExperiment
from phmrun.families.sentence_classification.items import Item, LeftOut, divided, prepare_items
from phmrun.text.vocabulary import UNK
from phmrun.text.words import spaced


class Pairs(ClassificationExperiment):
    """Pairs of sentences with any labels."""

    task: str = "pairs"
    names = ("first", "second")
    classes: tuple[str, ...] = ("no", "yes")

    @property
    def labels(self):
        return self.classes


TRAIN = [Item((f"a b{n % 3}", "c " * (n % 4)), "yes" if n % 3 else "no") for n in range(30)]
DEV = [Item(("a B0 x", "c"), "no"), Item(("a", "c"), "yes")]


@pytest.fixture
def prepare(tmp_path):
    source = tmp_path / "items.txt"
    source.write_text("content")

    def run(train=TRAIN, dev=DEV, reading=None, labels=("no", "yes"), max_length=10, **words):
        settings = {"lowercase": True, "multiple_of": 8, **words}
        config = Pairs(data={"max_length": max_length, "vocabulary": settings})
        config = config.model_copy(update={"classes": labels})
        readers = {"train": train if callable(train) else lambda: train, "dev": lambda: dev}
        return prepare_items(readers, [source], config, reading or {"format": "mine"}, tmp_path / "cache")

    run.source = source
    return run


def test_the_stores_hold_the_items(prepare):
    prepared = prepare()
    words = prepared.vocabulary.words
    assert prepared.vocabulary.sizes == (16, 2)
    for split, items in (("train", TRAIN), ("dev", DEV)):
        store = prepared.stores[split]
        assert len(store) == len(items)
        assert [prepared.vocabulary.labels[number] for number in store.labels] == [item.label for item in items]
        for side in (0, 1):
            for number, item in enumerate(items):
                expected = " ".join(item.sentences[side].lower().split()).replace("x", "<unk>")
                assert words.decode(store.sentences[side][number]) == expected
    assert prepared.stores["dev"].sentences[0][0].tolist()[-1] == UNK


def test_statistics_are_those_of_a_count_by_hand(prepare):
    prepared = prepare([*TRAIN, LeftOut("no gold label"), LeftOut("no gold label", 2)], max_length=2)
    statistics = prepared.statistics
    assert statistics["vocabulary"] == {"size": 16, "entries": 9, "requested": 20_000, "labels": 2}
    train = statistics["splits"]["train"]
    kept = [item for item in TRAIN if item.sentences[1].count("c") <= 2]
    assert train["items"] == len(kept)
    assert train["left_out"] == {"no gold label": 3, "more than 2 words": len(TRAIN) - len(kept)}
    assert train["labels"] == {label: sum(item.label == label for item in kept) for label in ("no", "yes")}
    assert train["second"]["tokens"] == sum(item.sentences[1].count("c") for item in kept)
    assert statistics["splits"]["dev"]["first"]["unknown_rate"] == 1 / 4
    assert json.loads((prepared.path / "statistics.json").read_text()) == statistics


@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_store_is_made_again(prepare, cut):
    prepared = prepare()
    labels = prepared.path / "dev" / "labels.npy"
    content = labels.read_bytes()
    number = str(10**30).encode()
    damaged = content.replace(b"(2,), }" + b" " * len(number), b"(" + number + b",), } ")
    labels.write_bytes(b"\x93NUMPY" if cut else damaged)
    assert labels.read_bytes() != content
    prepare()
    assert labels.read_bytes() == content


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 6.39 days; don't  stop!", "It 's 6.39 days ; do n't stop !"),
        ("well-known U.S. (1,000)", "well-known U . S . ( 1,000 )"),
        ("they’ll\tsay 'no'", "they 'll say ' no '"),
        ("Ünïcode_x ...", "Ünïcode_x . . ."),
    ],
)
def test_marks_and_clitics_are_words(text, words):
    assert spaced(text, False, "punctuation") == words
    assert spaced(text, True, "space") == " ".join(text.lower().split())


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz")), max_size=40))
def test_shares_of_a_file(pairs):
    items = [Item(pair, "l") for pair in pairs]
    tested = [Item(("a", "x"), "l"), LeftOut("other")]
    content = [LeftOut("no gold label", 2), *items]
    shares = {"train": 60, "dev": 15, "test": 25}
    readers = divided(partial(iter, content), shares, without=[lambda: tested])
    actual = {split: list(reader()) for split, reader in readers.items()}
    kept = {split: [item for item in all_ if isinstance(item, Item)] for split, all_ in actual.items()}
    counted = {split: [item for item in all_ if isinstance(item, LeftOut)] for split, all_ in actual.items()}
    assert sorted(item for split in kept.values() for item in split) == sorted(i for i in items if i != tested[0])
    firsts = [{item.sentences[0] for item in split} for split in kept.values()]
    assert sum(map(len, firsts)) == len(set().union(*firsts)), "a first sentence is in two splits"
    assert sum(out.items for split in counted.values() for out in split) == 2 + items.count(tested[0])
    assert counted["train"][0] == LeftOut("no gold label", 2)
