"""Rows of the training loss by arithmetic, and the stop at a loss that is no number."""

import math

import pytest
from toy import ToyModule, train_toy

from phmrun.engine import fit
from phmrun.errors import ExitCode, PhmrunError


@pytest.fixture(autouse=True)
def _a_row_every_three_steps(monkeypatch):
    monkeypatch.setattr(fit, "HISTORY_EVERY", 3)


def expected_rows(first, last, accumulate):
    """Reported losses b over units b + 1, summed over the micro-batches since the last row."""
    rows = []
    for step in range(first + 1, last + 1):
        if step % 3 == 0 or step == last:
            begin = (step - 1) // 3 * 3 * accumulate
            numbers = range(begin, step * accumulate)
            rows.append((step, sum(numbers) / sum(number + 1 for number in numbers), 1 / step))
    return rows


def rows_of(toy):
    return [(row["step"], row["train/loss"], row["train/lr"]) for row in toy.rows if "train/loss" in row]


@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_rows_are_means_per_unit_since_the_last_row(accumulate, tmp_path):
    toy = train_toy(tmp_path, max_steps=7, accumulate=accumulate)
    assert toy.module.seen == list(range(7 * accumulate))
    rows = rows_of(toy)
    assert [row[0] for row in rows] == [3, 6, 7]
    for row, expected in zip(rows, expected_rows(0, 7, accumulate), strict=True):
        assert row == pytest.approx(expected)
    times = [row["time"] for row in toy.rows]
    assert times == sorted(times)
    assert all(row["train/units_per_second"] > 0 for row in toy.rows if "train/loss" in row)


def test_a_resumed_run_writes_the_same_rows(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        train_toy(tmp_path, ToyModule({10: RuntimeError("killed")}), max_steps=7, accumulate=2)
    again = train_toy(tmp_path, max_steps=7, accumulate=2)
    assert again.resumed == [4]
    assert again.module.seen == list(range(8, 14))
    for row, expected in zip(rows_of(again), expected_rows(4, 7, 2), strict=True):
        assert row == pytest.approx(expected)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("number", "step"), [(8, 5), (9, 5), (0, 1)])
def test_a_loss_that_is_no_number_stops_and_names_the_step(value, number, step, tmp_path):
    with pytest.raises(PhmrunError) as caught:
        train_toy(tmp_path, ToyModule({number: value}), max_steps=20, accumulate=2)
    assert caught.value.code is ExitCode.TRAINING
    assert caught.value.what == f"the training loss is {value} at optimizer step {step}"
    assert "learning rate" in caught.value.hint
