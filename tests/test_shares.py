"""Shares as they are written."""

from fractions import Fraction

import pytest

from phmrun.shares import share_of


@pytest.mark.parametrize(
    ("written", "share"),
    [("1/4", Fraction(1, 4)), (0.25, Fraction(1, 4)), ("1e-3", Fraction(1, 1000)), (1, 1), (" .5 ", Fraction(1, 2))],
)
def test_shares_are_read_as_fractions(written, share):
    assert share_of(written) == share
