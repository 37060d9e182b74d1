"""Baselines beside runs: rows of a table, and the sentence on a run that does not beat its floor."""

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.listing import recorded_run
from phmrun.results.baselines import has_diverged, shortfall

FLOOR = {"value": 50.0, "signature": "always:a"}


@pytest.mark.parametrize(("interval", "trained"), [((49.0, 53.0), False), ((50.5, 53.0), True), (None, True)])
def test_a_run_at_its_floor_is_said_to_be_untrained(interval, trained):
    entry = {"value": 51.0} | ({"ci": interval} if interval else {})
    sentence = shortfall({"test/accuracy": entry, "test/accuracy-of-majority": FLOOR})
    assert (sentence is None) == trained
    if sentence:
        assert "does not beat the floor majority, 50.00" in sentence


@pytest.mark.parametrize(("perplexity", "diverged"), [(900.0, True), (700.0, False), (120.0, False)])
def test_a_run_past_the_unigram_has_diverged(tmp_path, perplexity, diverged):
    run = Run.create(tmp_path, "lm-x-dense-1-0123456789ab", "task: lm\n")
    run.update_metrics("test/perplexity", {"value": perplexity})
    run.update_metrics("test/perplexity-of-unigram", {"value": 700.0})
    run.set_state(State.DONE)
    assert has_diverged(recorded_run(run.path), "test/perplexity") == diverged
    sentence = shortfall(run.metrics())
    assert (sentence or "").startswith("diverged: ") == diverged
    if diverged:
        assert sentence == "diverged: test/perplexity 900.00 is worse than the floor unigram, 700.00"
