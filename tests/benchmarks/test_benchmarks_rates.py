"""The page of measurements has the figures of the records, and a training is repeatable."""

import math
from pathlib import Path

import pytest

from benchmarks.rates import TRAINED, Row, experiment, kept, rows, summary, table, walk

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_figures_of_the_records() -> None:
    losses = kept(ROOT / "benchmarks" / "rates.jsonl")
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    assert len([*table(losses)]) > 50
    lines = [line for line in summary(losses) if line.startswith("| ")]
    assert len(lines) > 9
    assert [line for line in lines if line not in page] == []


@pytest.mark.parametrize(("first", "best"), [(-8, -5), (-5, -5), (-2, -5)])
def test_the_walk_ends_where_both_neighbors_are_worse(first: int, best: int) -> None:
    tried: list[int] = []

    def loss_at(exponent: int) -> float:
        tried.append(exponent)
        return math.inf if exponent > -3 else abs(exponent + 5.0)

    assert walk(first, loss_at) == best
    assert {best - 1, best + 1} <= set(tried)
    assert len(tried) == len(set(tried))


def test_every_row_has_a_configuration() -> None:
    for row in rows(TRAINED):
        assert (experiment(row, 64, 1).training.optimizer.rates == "one") == (row.method == "one")
    assert rows(["one"])[:2] == [Row("dense", "one"), Row("phm n=4", "one")]
