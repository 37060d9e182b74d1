"""The best validation in the unit of the tests, of runs of this release and of earlier ones."""

import pytest

from phmrun.ledger import Run
from phmrun.ledger.history import BEST, best_validation
from phmrun.ledger.listing import summarise


@pytest.mark.parametrize(
    ("monitor", "score", "expected"),
    [
        ("accuracy", {"value": 0.5, "step": 3}, 50.0),
        ("loss", {"value": 0.5, "step": 3}, 0.5),
        ("accuracy", best_validation("accuracy", 0.5, 3), 50.0),
        ("loss", best_validation("loss", 0.5, 3), 0.5),
    ],
)
def test_shares_are_in_per_cent(tmp_path, monitor, score, expected):
    run = Run.create(tmp_path, "sva-toy-dense-1-0123456789ab", f"task: sva\ntraining:\n  monitor: {monitor}  # said\n")
    run.update_metrics(BEST, score)
    for _ in range(2):  # what was read is not changed by being written again
        assert run.metrics()[BEST]["value"] == expected
        assert summarise(run.path).score(BEST) == expected
        run.update_metrics("test/accuracy", {"value": 1.0, "signature": "x"})


def test_a_run_whose_config_cannot_be_read_keeps_its_scores(tmp_path):
    run = Run.create(tmp_path, "sva-toy-dense-1-0123456789ab", "task: sva\n")
    run.update_metrics(BEST, {"value": 0.5, "step": 3})
    assert run.metrics()[BEST]["value"] == 0.5
