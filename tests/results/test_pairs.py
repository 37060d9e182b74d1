"""All pairs of rows: whom they compare, and that their intervals hold together."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from phmrun.ledger import Run, State
from phmrun.ledger.listing import recorded_run
from phmrun.results.comparison import all_pairs, differences
from phmrun.results.entries import Entry
from phmrun.results.layout import lay_out, pair_facts
from phmrun.results.table import Heading, tabulate
from phmrun.statistics.verdict import Verdict
from phmrun.statistics.welch import difference

ROWS = {"dense": (30.0, 30.2, 29.9), "phm": (29.0, 29.4, 28.9), "monarch": (20.0, 20.3, 19.8), "blast": (29.1, 29.3)}


@pytest.fixture
def table(tmp_path):
    """A table of rows with these scores, one per seed; data and steps by row, if given."""

    def make(rows, data=None, steps=None, scores=("test/bleu",), floor=0.0):
        entries, count = [], 0
        for name, values in rows.items():
            config = {"layer": {"structure": name}, "data": {"name": (data or {}).get(name, "text")}}
            if steps and name in steps:
                config["training"] = {"max_steps": steps[name]}
            for seed, value in enumerate(values):
                count += 1
                run = Run.create(tmp_path, f"nmt-x-{count}-0123456789ab", "task: nmt\n")
                run.write_parameters({"total": 100})
                for score in scores:
                    run.add_metrics({score: {"value": value, "signature": "x"}, "test/bleu-of-copy": {"value": floor}})
                run.set_state(State.DONE)
                entries.append(Entry({"layer": name, "seed": seed}, config, recorded_run(run.path)))
        return tabulate(entries, ["layer"], [Heading(score, score) for score in scores])

    return make


def named(created, pairs):
    names = created.names
    return [(names[pair.place[0]], names[pair.beside]) for pair in pairs]


def test_every_row_is_compared_with_every_earlier_one_at_a_level_that_all_share(table):
    created = table(ROWS)
    pairs = all_pairs(created)
    expected = [(b, a) for place, a in enumerate(ROWS) for b in list(ROWS)[place + 1 :]]
    assert named(created, pairs) == expected
    for pair, (row, beside) in zip(pairs, expected, strict=True):
        alone = difference(ROWS[row], ROWS[beside], 6)
        shown = pair.judgement.difference
        assert pair.sharing == 6
        assert (shown.value, shown.low, shown.high) == (alone.value, alone.low, alone.high)
    verdicts = {pair: item.verdict for pair, item in zip(expected, pairs, strict=True)}
    assert verdicts["monarch", "dense"] is verdicts["monarch", "phm"] is Verdict.DIFFERENT
    assert verdicts["blast", "phm"] is Verdict.UNDECIDED


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(seed=some.integers(0, 10**6), rows=some.integers(2, 4), seeds=some.integers(3, 8))
def test_intervals_hold_those_of_games_and_howell(seed, rows, seeds):
    """Theirs use the studentised range of all rows, and Satterthwaite's degrees of freedom without caution."""
    stats = pytest.importorskip("scipy.stats")
    stream = np.random.default_rng(seed)
    groups = [stream.normal(0, 1 + row % 3, seeds) for row in range(rows)]
    theirs = stats.tukey_hsd(*groups, equal_var=False).confidence_interval(0.95)
    pairs = rows * (rows - 1) // 2
    for row in range(rows):
        for beside in range(row):
            ours = difference(groups[row].tolist(), groups[beside].tolist(), pairs)
            assert ours.low <= theirs.low[row, beside] + 1e-6
            assert ours.high >= theirs.high[row, beside] - 1e-6
            assert math.isclose(ours.low + ours.high, theirs.low[row, beside] + theirs.high[row, beside], abs_tol=1e-5)


def test_only_rows_of_the_same_data_and_length_are_paired(table):
    other = table(ROWS, data={"phm": "other"}, steps={"monarch": 500, "blast": 500})
    assert named(other, all_pairs(other)) == [("blast", "monarch")]
    assert {pair.sharing for pair in all_pairs(other)} == {1}


def test_a_loss_is_untrained_where_the_score_beside_it_is(table):
    created = table({"dense": (10.0, 10.2), "phm": (9.0, 9.2)}, scores=("test/bleu", "test/loss"), floor=50.0)
    assert [pair.verdict for pair in all_pairs(created)] == [Verdict.UNTRAINED] * 2


def test_a_margin_is_not_that_of_the_loss_beside_the_score(table):
    created = table({"dense": (10.0, 10.2), "phm": (9.9, 10.2)}, scores=("test/bleu", "test/loss"))
    for compared in (all_pairs(created, margin=2.0), differences(created, 2.0).values()):
        assert [pair.question.margin for pair in compared] == [2.0, None]
    (alone,) = all_pairs(table({"dense": (0.2, 0.3), "phm": (0.1, 0.2)}, scores=("test/loss",)), margin=2.0)
    assert alone.question.margin == 2.0


def test_pairs_stand_in_place_of_verdicts_beside_dense(table):
    created = table(ROWS)
    pairs = all_pairs(created, margin=2.0)
    (_, (columns, rows)), _ = lay_out(created, {}, pairs=pairs)
    assert columns == ["row", "beside", "Δ", "95 % interval", "p", "detectable", "seeds", "verdict"]
    by_pair = {tuple(line[:2]): line for line in rows}
    assert by_pair["monarch", "dense"][2] == "-10.00"
    assert by_pair["monarch", "dense"][-1] == "different, worse"
    assert by_pair["blast", "monarch"][-1] == "different, better"
    facts = {(fact["row"], fact["beside"]): fact for fact in pair_facts(created, pairs)}
    fact = facts["blast", "phm"]
    assert fact["interval"][0] < fact["difference"] < fact["interval"][1]
    assert fact["compared_seeds"] == [2, 3]
