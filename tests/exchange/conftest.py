"""A vocabulary and sentences."""

import random

import pytest

from phmrun.text.vocabularies import Vocabularies, train_vocabulary

WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture(scope="session")
def vocabularies() -> Vocabularies:
    """Words on both sides, some rows of the table unused."""
    vocabulary = train_vocabulary([" ".join(WORDS)], kind="word", size=44, multiple_of=16)
    return Vocabularies(vocabulary, vocabulary)


@pytest.fixture(scope="session")
def lines() -> list[str]:
    """Sentences of different lengths, one of them empty."""
    draw = random.Random(0)
    return ["", *(" ".join(draw.choices(WORDS, k=draw.randrange(1, 9))) for _ in range(11))]
