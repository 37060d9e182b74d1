"""The judge of ``python -m tests.fuzz``, which feeds damaged input to every reader."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests is no package where pytest starts

from tests.fuzz.worker import Tally, tried


def test_a_reader_that_raises_anything_else_is_found():
    def read(content: bytes) -> None:
        raise KeyError(content.decode())

    tally = Tally()
    assert not tried(read, b"key", tally, 7)
    assert tally.failed == 1
    assert list(tally.faults.values()) == ["7"]
