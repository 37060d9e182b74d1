"""Style metrics beside BLEU, on sentences with obvious answers."""

import pytest

from phmrun.tasks.style.data import measures

PAIRS = [
    ("you are here", "thou art here"),
    ("you have it", "thou hast it"),
    ("your hand", "thy hand"),
    ("the king", "the king"),
]


def test_the_classifier_learns_the_words_of_the_styles():
    pytest.importorskip("sklearn")
    style = measures(lambda: PAIRS)["style"]
    assert style([], ["thou art", "thy hand it is", "thou hast"]).value == 100.0
    assert style([], ["you are", "your hand it is", "you have"]).value == 0.0


def test_it_learns_once_and_only_when_asked():
    calls = []

    def train():
        calls.append(1)
        return PAIRS

    actual = measures(train)
    actual["unchanged"](["a"], ["a"])
    assert not calls
    pytest.importorskip("sklearn")
    actual["style"](["a"], ["a"])
    actual["style"](["a"], ["b"])
    assert len(calls) == 1
