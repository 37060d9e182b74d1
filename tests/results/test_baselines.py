"""Baselines beside runs: rows of a table, and the sentence on a run that does not beat its floor."""

import pytest

from phmrun.results.baselines import shortfall

FLOOR = {"value": 50.0, "signature": "always:a"}


@pytest.mark.parametrize(("interval", "trained"), [((49.0, 53.0), False), ((50.5, 53.0), True), (None, True)])
def test_a_run_at_its_floor_is_said_to_be_untrained(interval, trained):
    entry = {"value": 51.0} | ({"ci": interval} if interval else {})
    sentence = shortfall({"test/accuracy": entry, "test/accuracy-of-majority": FLOOR})
    assert (sentence is None) == trained
    if sentence:
        assert "does not beat the floor majority, 50.00" in sentence


def test_runs_without_a_floor_have_no_sentence():
    assert shortfall({"test/accuracy": {"value": 51.0}}) is None
    assert shortfall({"validation/loss": 1.0}) is None
