"""A few of the trials of ``python tests/kills``; ``PHMRUN_KILLS`` says how many of each case."""

import os
import random

import pytest
from trials import Site, attempt, cases

ROUNDS = int(os.environ.get("PHMRUN_KILLS", "1"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in cases(1, 2) if ROUNDS > 1 or str(case) in ("lm-2-32", "sva-1-64")], ids=str,
)  # fmt: skip
def test_killed_at_any_moment_it_ends_the_same(case, tmp_path):
    site = Site(tmp_path / "site", case)
    draw = random.Random(str(case))
    for _ in range(ROUNDS):
        trial = attempt(site, draw, most=1 if ROUNDS == 1 and case.world > 1 else 3)
        assert not trial.differences, trial
