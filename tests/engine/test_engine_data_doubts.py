"""Warnings about odd data statistics."""

import pytest

from phmrun.engine.data import odd_figures


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        (
            {"dev": {"source": {"unknown_rate": 0.75}, "target": {"unknown_rate": 0.1}}},
            ["dev source: 75% of the words"],
        ),
        ({"train": {"unknown_rate": 1.0}, "test": {"unknown_rate": 0.49}}, []),
        (
            {"train": {"labels": {"yes": 3, "no": 0}}, "dev": {"labels": {"yes": 0}}},
            ["train: no item has the label no"],
        ),
    ],
)
def test_unknown_words_and_labels_that_are_never_seen_are_odd(splits, said):
    actual = list(odd_figures({"splits": splits}))
    assert len(actual) == len(said)
    assert all(text.startswith(start) for text, start in zip(actual, said, strict=True))
