"""The bag-of-words baseline of inference: its features by hand, what it learns, and a run without its package."""

import sys

import pytest
from tiny_experiments import configured, run_experiment, run_of

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


def test_without_its_package_it_is_left_out(tmp_path, monkeypatch):
    for name in ("sklearn", "sklearn.feature_extraction.text"):
        monkeypatch.setitem(sys.modules, name, None)
    metrics = run_of(run_experiment(configured("nli", tmp_path / "corpus"), tmp_path / "runs")).metrics()
    assert "test/accuracy-of-majority" in metrics
    assert "test/accuracy-of-bag-of-words" not in metrics
