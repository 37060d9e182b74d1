"""A short run of every reader on damaged input; ``python -m tests.fuzz`` takes as long as it is given."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests is no package where pytest starts

from tests.fuzz.mutation import Mutator
from tests.fuzz.readers import READERS
from tests.fuzz.worker import Tally, read_seeds, tried

pytestmark = pytest.mark.long
TRIES = 60


@pytest.mark.parametrize("name", READERS)
def test_damaged_input_is_read_or_refused_in_words(name, tmp_path):
    reader = READERS[name]
    read, seeds = reader.prepare(tmp_path), reader.seeds()
    assert read_seeds(read, seeds) > 0
    mutator, tally = Mutator(seeds, reader.tokens, structured=reader.structured), Tally()
    for number in range(TRIES):
        tried(read, mutator.damaged(random.Random(f"1:{name}:{number}")), tally, number)
    assert tally.faults == {}
    assert tally.tried == TRIES
    assert tally.refused > 0


def test_a_reader_that_raises_anything_else_is_found():
    def read(content: bytes) -> None:
        raise KeyError(content.decode())

    tally = Tally()
    assert not tried(read, b"key", tally, 7)
    assert tally.failed == 1
    assert list(tally.faults.values()) == ["7"]
