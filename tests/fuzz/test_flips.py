"""A short run of the bit flips; ``python -m tests.fuzz.flips`` takes as many as it is told."""

import os
import sys
from pathlib import Path

import pytest

from phmrun.results import index

sys.path.insert(0, str(Path(__file__).parents[2]))  # tests is no package where pytest starts

from tests.fuzz.flips import AREAS, Laboratory, Tally


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    former = os.environ["PHMRUN_CACHE"], index._SETTLED
    yield Laboratory(tmp_path_factory.mktemp("flips") / "whole")
    os.environ["PHMRUN_CACHE"], index._SETTLED = former


@pytest.mark.parametrize("area", AREAS)
def test_flipped_bits_are_noticed_or_change_nothing(laboratory, area):
    tally = Tally()
    for number in range(12):
        laboratory.trial(area, number, tally)
    assert tally.silent == []
    assert tally.outcomes[area, "identical" if area == "index" else "noticed"] > 0
