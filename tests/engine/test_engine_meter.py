"""Rows of the training loss by arithmetic, and the stop at a loss that is no number."""

import math

import pytest
from toy import ToyModule, train_toy

from phmrun.engine import fit, progress
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


def test_no_checkpoint_is_made_of_a_step_without_a_loss(tmp_path):
    with pytest.raises(PhmrunError):
        train_toy(tmp_path, ToyModule({5: math.nan}), max_steps=20, checkpoint_every=1)
    import torch

    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 5


def test_seconds_go_on_counting(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        train_toy(tmp_path, ToyModule({4: RuntimeError("killed")}))
    from phmrun.engine.checkpoints import load_checkpoint

    callbacks = load_checkpoint(tmp_path / "last.ckpt")["callbacks"]
    seconds = next(state["seconds"] for name, state in callbacks.items() if "Meter" in name)
    assert 0 < seconds < train_toy(tmp_path).fitted.seconds


@pytest.mark.parametrize(
    ("kept", "world", "sums"),
    [
        (([1.0, 2.0], [3, 4]), 2, [(1.0, 3), (2.0, 4)]),
        (([1.0, 2.0], [3, 4]), 1, [(3.0, 7)]),
        (([5.0], [6]), 2, [(5.0, 6), (0.0, 0)]),
        ((5.0, 6), 1, [(5.0, 6)]),
    ],
    ids=["two-two", "two-one", "one-two", "of-an-earlier-release"],
)
def test_every_process_takes_up_its_own_sums(kept, world, sums, monkeypatch):
    monkeypatch.setattr(progress, "world", lambda: world)
    for number, expected in enumerate(sums):
        monkeypatch.setattr(progress, "rank", lambda number=number: number)
        meter = progress.Meter(lambda row: None, 1)
        meter.load_state_dict({"nll": kept[0], "units": kept[1], "seconds": 7.0})
        assert (meter.nll, meter.units, meter.seconds) == (*expected, 7.0)
