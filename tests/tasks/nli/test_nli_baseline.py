"""The bag-of-words baseline of inference: its features by hand, what it learns, and a run without its package."""

import pytest

from phmrun.families.sentence_classification.items import Item, LeftOut
from phmrun.tasks.nli.data import bag_of_words, words_of_pair


def test_the_features_of_a_pair():
    assert list(words_of_pair("A dog runs", "the dog")) == [
        *("p:a", "p:dog", "p:runs", "h:dog", "h:the"),
        *("both:dog", "h-alone:the"),
    ]


def test_it_learns_what_the_words_tell():
    pytest.importorskip("sklearn")
    train = [Item(("a cat", f"{word} cat"), label) for word, label in (("no", "x"), ("one", "y"))] * 20
    guess = bag_of_words(lambda: iter([*train, LeftOut("no gold label")]))
    assert guess([Item(("the hen", "no hen"), ""), Item(("the hen", "one hen"), "")]) == ["x", "y"]
    assert bag_of_words(lambda: iter(train[::2]))([Item(("a hen", "one hen"), "")] * 2) == ["x", "x"]
