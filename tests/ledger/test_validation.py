"""The best validation in the unit of the tests."""

import pytest

from phmrun.ledger.history import best_validation


@pytest.mark.parametrize(("monitor", "expected"), [("accuracy", 50.0), ("loss", 0.5)])
def test_shares_are_in_per_cent(monitor, expected):
    assert best_validation(monitor, 0.5, 3)["value"] == expected
