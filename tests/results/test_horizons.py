"""Length of training: dense that still gains, and verdicts that turn between lengths."""

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.listing import summarise
from phmrun.results.comparison import differences
from phmrun.results.entries import Entry
from phmrun.results.late_gain import late_gain
from phmrun.results.layout import lay_out, plain_rows
from phmrun.results.table import Heading, tabulate

DENSE, PHM = {"layer": {"structure": "dense"}}, {"layer": {"structure": "phm", "n": 4}}


@pytest.fixture
def entry(tmp_path):
    """An experiment with a run that has a test score and a curve of validations."""
    count = 0

    def make(at, config, bleu, curve=(), pace=0.1):
        nonlocal count
        count += 1
        run = Run.create(tmp_path, f"nmt-x-{count}-0123456789ab", "task: nmt\n")
        for step, value in curve:
            run.history.append({"step": step, "time": step * pace, "val/bleu": value, "val/loss": 100 / value})
        run.update_metrics("test/bleu", {"value": bleu, "signature": "tok:13a"})
        run.set_state(State.DONE)
        return Entry(at, config, summarise(run.path))

    return make


@pytest.mark.parametrize(
    ("curve", "margin", "gain", "limit", "matters"),
    [
        ([(100, 20.0), (200, 24.0), (300, 25.5)], 0.5, 1.5, 0.5, True),
        ([(100, 20.0), (200, 24.0), (300, 24.3)], 0.5, 0.3, 0.5, False),
        ([(100, 20.0), (200, 24.0), (300, 23.0)], 0.5, 0.0, 0.5, False),  # it has fallen: no gain
        ([(100, 20.0), (200, 24.0), (300, 25.0)], None, 1.0, 0.24, True),  # no margin: 1 % of the value
    ],
)
def test_the_gain_of_the_last_third_is_that_of_the_best_so_far(curve, margin, gain, limit, matters):
    late = late_gain("val/bleu", curve, margin)
    assert (late.value, late.limit) == (pytest.approx(gain), pytest.approx(limit))
    assert late.matters == matters


def test_a_loss_falls_and_has_no_margin_of_the_score():
    late = late_gain("val/loss", [(1, 5.0), (2, 4.0), (3, 3.9)], 0.5)
    assert (late.value, late.limit, late.matters) == (pytest.approx(0.1), pytest.approx(0.04), True)
    assert late_gain("val/loss", [(3, 3.9)], None) is None
    assert late_gain("", [], 0.5) is None


def table_of(entries, keys=("layer",)):
    return tabulate(entries, list(keys), [Heading("BLEU", ("test/bleu",))])


@pytest.mark.parametrize(("last", "still"), [(26.0, True), (24.2, False)])
def test_a_table_says_that_dense_still_gains(entry, last, still):
    curve = [(100, 20.0), (200, 24.0), (300, last)]
    rows = ((DENSE, 30), (PHM, 29))
    entries = [entry({"seed": seed}, row, base + 0.1 * seed, curve) for row, base in rows for seed in range(3)]
    table = table_of(entries)
    compared = differences(table)
    notes = lay_out(table, "mean±std", compared, paper=False).notes
    assert any("still gains 2.00 of validation BLEU" in note for note in notes) == still
    (cell,) = [cell for cell in plain_rows(table, compared) if cell["layer"] != "dense"]
    assert cell["late_gain"]["metric"] == "val/bleu"
    assert cell["validation"] == {"score": "val/bleu", "curve": curve}


def lengths(entry, means):
    """A table of both layers at two lengths, four seeds each."""
    entries = [
        entry(
            {"layer": layer, "horizon": length, "seed": seed},
            {**(DENSE if layer == "dense" else PHM), "training": {"max_steps": 100 * int(length)}},
            mean + 0.2 * seed,
        )
        for (length, layer), mean in means.items()
        for seed in range(4)
    ]
    return table_of(entries, ("layer", "horizon"))


def test_a_verdict_that_turns_between_two_horizons_is_reported(entry):
    means = {("1", "dense"): 20.0, ("1", "phm n=4"): 23.0, ("3", "dense"): 30.0, ("3", "phm n=4"): 29.8}
    table = lengths(entry, means)
    compared = differences(table)
    page = lay_out(table, "mean±std", compared, paper=False)
    column = page.verdict_columns.index("verdict")
    assert [row[column] for row in page.verdict_rows] == ["different, better; turns at 3", "undecided"]
    assert sum("has the other sign at the length" in note for note in page.notes) == 2
    turns = {cell["horizon"]: cell["turns"] for cell in plain_rows(table, compared) if cell["layer"] != "dense"}
    assert turns == {"1": ["3"], "3": ["1"]}


def test_equal_signs_turn_nothing(entry):
    means = {("1", "dense"): 20.0, ("1", "phm n=4"): 23.0, ("3", "dense"): 30.0, ("3", "phm n=4"): 33.0}
    assert [comparison.turns for comparison in differences(lengths(entry, means)).values()] == [(), ()]


def test_rows_are_read_at_equal_time_too(entry):
    """The row takes three times as long: when dense is done, it has made a third of its steps."""
    slow, fast = [(100, 20.0), (200, 24.0), (300, 26.0)], [(100, 21.0), (200, 23.0), (300, 25.0)]
    entries = [entry({"seed": seed}, DENSE, 30 + 0.1 * seed, fast) for seed in range(3)]
    entries += [entry({"seed": seed}, PHM, 31 + 0.1 * seed, slow, pace=0.3) for seed in range(3)]
    table = table_of(entries)
    (comparison,) = differences(table).values()
    equal = comparison.equal_time
    assert (equal.metric, equal.seconds) == ("val/bleu", pytest.approx(30.0))
    assert (equal.value, equal.reference) == (20.0, 25.0)
    notes = lay_out(table, "mean±std", differences(table), paper=False).notes
    assert (
        "phm n=4: after 30 s of training each, by the clock of these runs: validation BLEU 20.00, dense 25.00" in notes
    )


def test_without_times_there_is_no_equal_time(entry):
    curve = [(100, 20.0), (200, 24.0)]
    entries = [entry({"seed": seed}, row, 30.0 + seed, curve, pace=0.0) for row in (DENSE, PHM) for seed in range(2)]
    (comparison,) = differences(table_of(entries)).values()
    assert comparison.equal_time is None
