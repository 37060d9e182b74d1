"""Baselines beside runs: rows of a table, and the sentence on a run that does not beat its floor."""

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.listing import recorded_run
from phmrun.results.baselines import has_diverged, listed_baselines, shortfall

FLOOR = {"value": 50.0, "signature": "always:a"}


@pytest.mark.parametrize(("interval", "trained"), [((49.0, 53.0), False), ((50.5, 53.0), True), (None, True)])
def test_a_run_at_its_floor_is_said_to_be_untrained(interval, trained):
    entry = {"value": 51.0} | ({"ci": interval} if interval else {})
    losses = {"train/loss": 1.0, "dev/loss": {"value": 2.0}}
    sentence = shortfall({**losses, "dev/accuracy": entry, "dev/accuracy-of-majority": FLOOR})
    assert (sentence is None) == trained
    if sentence:
        assert "does not beat the floor majority, 50.00" in sentence


@pytest.mark.parametrize(("perplexity", "diverged"), [(900.0, True), (700.0, False), (120.0, False)])
def test_a_run_past_the_unigram_has_diverged(tmp_path, perplexity, diverged):
    run = Run.create(tmp_path, "lm-x-dense-1-0123456789ab", "task: lm\n")
    run.add_metrics({"test/perplexity": {"value": perplexity}})
    run.add_metrics({"test/perplexity-of-unigram": {"value": 700.0}})
    run.set_state(State.DONE)
    assert has_diverged(recorded_run(run.path), "test/perplexity") == diverged
    sentence = shortfall(run.metrics())
    assert (sentence or "").startswith("diverged: ") == diverged
    if diverged:
        assert sentence == "diverged: test/perplexity 900.00 is worse than the floor unigram, 700.00"


def test_floors_of_different_test_items_are_rows_of_their_own(tmp_path):
    runs = []
    for seed, (mark, floor) in enumerate([("aaaaaa", 50.0), ("aaaaaa", 50.0), ("bbbbbb", 70.0)], start=1):
        run = Run.create(tmp_path, f"nli-x-dense-{seed}-0123456789ab", "task: nli\n")
        run.add_metrics({"test/accuracy": {"value": 80.0, "signature": f"accuracy|data:{mark}"}})
        run.add_metrics({"test/accuracy-of-majority": {"value": floor, "signature": f"always:a|data:{mark}"}})
        run.set_state(State.DONE)
        runs.append(recorded_run(run.path))
    started = Run.create(tmp_path, "nli-x-dense-4-0123456789ab", "task: nli\n")
    started.set_state(State.RUNNING)
    runs = [recorded_run(started.path), *runs]
    rows = dict(listed_baselines(runs, ["test/accuracy"]))
    assert [name.split()[-1] for name in rows] == ["aaaaaa", "bbbbbb"]
    assert list(rows.values()) == [[50.0], [70.0]]
    assert not any(name.endswith("aaaaaa") for name, _ in listed_baselines(runs[:3], ["test/accuracy"]))
