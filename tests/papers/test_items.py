"""What items add to a score, written into a small file and read again."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from phmrun.papers.items import _packed, _unpacked, from_json


@given(arrays(np.int64, st.integers(0, 300), elements=st.integers(0, 2**20)))
def test_columns_come_back(column):
    assert np.array_equal(_unpacked(_packed(column.astype(float)), len(column)), column)


def test_right_and_wrong_take_a_bit_each():
    right = np.random.default_rng(0).integers(0, 2, 8000).astype(float)
    assert len(_packed(right)) < 8000 / 8 * 4 / 3 + 100


@pytest.mark.parametrize("column", [[-1.0], [0.5]])
def test_what_is_no_count_is_refused(column):
    with pytest.raises(ValueError, match="natural numbers"):
        _packed(np.array(column))


@pytest.mark.parametrize("text", ["", "0:", "64:AAAA", "1:!", "1:AAAA", "x:AAAA"])
def test_damaged_columns_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        from_json({"items": 3, "mark": "", "file": "", "columns": [text]})
