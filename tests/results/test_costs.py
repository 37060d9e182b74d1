"""Costs that a run's own files have on record."""

from statistics import median

import pytest

from phmrun.ledger import Run
from phmrun.ledger.record import thinned
from phmrun.results.costs import COSTS


def test_the_clock_of_training_counts_without_validations(tmp_path):
    run = Run.create(tmp_path, "sva-x-1-0123456789ab", "task: sva\n")
    clock = COSTS["clock-step"].of
    times = [(50, 1.0), (100, 2.0), (150, 9.0), (200, 10.0), (300, 12.5)]  # a validation of 6 s after step 100
    for step, seconds in times:
        run.history.append({"step": step, "time": seconds, "train/loss": 1.0})
        run.history.append({"step": step, "time": seconds + 0.5, "val/loss": 1.0})
    assert clock(Run(run.path, lenient=True)) == pytest.approx(median([1 / 50, 7 / 50, 1 / 50, 2.5 / 100]))
    short = Run.create(tmp_path, "sva-x-3-0123456789ab", "task: sva\n")  # thinned, as in a small result
    for row in thinned([{"step": step, "time": step / 7, "train/loss": 1.0} for step in range(100)]):
        short.history.append(row)
    assert clock(Run(short.path, lenient=True)) is None
    other = Run.create(tmp_path, "sva-x-2-0123456789ab", "task: sva\n")
    other.history.append({"step": 50, "time": 1.0, "train/loss": 1.0})
    assert clock(Run(other.path, lenient=True)) is None
    assert COSTS["clock-sentence"].of(Run(other.path, lenient=True)) is None
    other.add_metrics({"test/sentences_per_second": {"value": 40.0, "signature": ""}})
    assert COSTS["clock-sentence"].of(Run(other.path, lenient=True)) == 0.025


@pytest.mark.parametrize(
    ("counts", "size"),
    [
        ({"total": 100, "trained_total": 100, "memory": {"weights": 400}}, 400),
        ({"total": 100, "trained_total": 250, "memory": {"weights": 1000}}, 400),  # 150 of a guide
        ({"total": 100, "trained_total": 20, "memory": {"weights": 400}}, 400),  # the rest is frozen
        ({"total": 100}, None),
    ],
)
def test_a_guide_is_no_part_of_the_weights_that_are_kept(tmp_path, counts, size):
    run = Run.create(tmp_path, "sva-x-1-0123456789ab", "task: sva\n")
    run.write_parameters(counts)
    assert COSTS["weights-size"].of(Run(run.path, lenient=True)) == size
    assert COSTS["trained"].of(Run(run.path, lenient=True)) == counts.get("trained_total")
