"""A vocabulary, sentences, and the command line run in this process."""

import random
from collections.abc import Callable
from typing import NamedTuple

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


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def phmrun(capfd) -> Callable[..., Result]:
    """Calls ``phmrun`` with these arguments."""
    from phmrun.cli.app import main

    def run(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return Result(end.value.code, *capfd.readouterr())

    return run
