"""A fault at every call of a few verbs; ``python tests/kills/faults.py`` takes all of them."""

import os

import pytest
from faults import Laboratory


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    former = {name: os.environ.get(name) for name in ("PHMRUN_CACHE", "PHMRUN_DATA")}
    yield Laboratory(tmp_path_factory.mktemp("faults"))
    for name, value in former.items():
        os.environ.pop(name, None)
        os.environ |= {name: value} if value is not None else {}


@pytest.mark.parametrize("verb", ["import", "archive", "add", "restore", "fetch", "eval"])
def test_same_command_after_a_fault_gives_the_same_files(laboratory, verb):
    every = 9 if verb == "eval" else 1
    outcomes = list(laboratory.trials(verb, every, kinds=("replace", "fsync", "directory", "unsynced")))
    assert len(outcomes) > 2
    assert [why for _, outcome, why in outcomes if outcome != "identical"] == []


def test_interrupted_training_survives_faults(laboratory):
    outcomes = list(laboratory.trials("resume", every=19, kinds=("replace", "directory", "clock")))
    assert [why for _, outcome, why in outcomes if outcome != "identical"] == []
