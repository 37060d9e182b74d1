"""A few of the trials of ``python tests/kills/takeovers.py``; ``PHMRUN_TAKEOVERS`` says how many."""

import os
import random

import pytest
from takeovers import attempt


@pytest.mark.slow
@pytest.mark.parametrize("number", range(int(os.environ.get("PHMRUN_TAKEOVERS", "2"))))
def test_two_machines_never_write_at_once(number, tmp_path):
    trial = attempt(tmp_path / "place", random.Random(number))
    assert trial.right, trial
