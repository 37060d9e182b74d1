"""Intervals and verdicts of one computation, against SciPy, enumeration and simulation."""

import math
from statistics import stdev

import numpy as np
import pytest

from phmrun.statistics.items import resampled, variance_of_means, variance_of_resamples
from phmrun.statistics.verdict import Population, Question, Verdict, collapsed, fisher_exact, judge
from phmrun.statistics.welch import CAUTION, detectable_deviations, difference, noncentrality, seeds_needed

DENSE = [30.0, 31.0, 32.0, 30.5, 31.2, 30.9]
LOW = [28.0, 29.0, 28.2, 28.4, 28.9, 28.3]


@pytest.fixture(scope="module")
def stats():
    """SciPy's, where it is installed."""
    return pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_interval_and_p_are_welchs_with_sidaks_level(stats, rows):
    shown = difference(LOW, DENSE, rows)
    parts = [np.var(side, ddof=1) / 6 for side in (LOW, DENSE)]
    satterthwaite = sum(parts) ** 2 / sum(part**2 / 5 for part in parts)
    freedom = 1 / ((1 - CAUTION) / satterthwaite + CAUTION / 5)
    half = stats.t.ppf(1 - (1 - 0.95 ** (1 / rows)) / 2, freedom) * math.sqrt(sum(parts))
    gap = np.mean(LOW) - np.mean(DENSE)
    assert (shown.low, shown.high) == pytest.approx((gap - half, gap + half), rel=1e-8)
    alone = 2 * stats.t.sf(abs(gap) / math.sqrt(sum(parts)), freedom)
    assert shown.p == pytest.approx(1 - (1 - alone) ** rows, rel=1e-6)


def test_p_is_below_the_level_if_and_only_if_the_interval_leaves_zero_out():
    stream = np.random.default_rng(1)
    for place in range(120):
        row, dense = stream.normal(1.2, 1 + place % 3, 10).tolist(), stream.normal(0, 1, 10).tolist()
        shown = difference(row, dense, 3)
        assert (shown.p < 0.05) == (shown.low > 0 or shown.high < 0)


@pytest.mark.parametrize(("first", "second"), [((2, 6), (0, 6)), ((5, 6), (1, 7)), ((0, 6), (0, 6)), ((6, 6), (0, 6))])
def test_fishers_test_is_scipys(stats, first, second):
    table = [[first[0], first[1] - first[0]], [second[0], second[1] - second[0]]]
    assert fisher_exact(first, second) == pytest.approx(stats.fisher_exact(table)[1])


def test_verdicts_in_their_order():
    near = [31.0, 30.9, 31.1, 30.8, 31.3, 30.9]
    same = {"low": LOW, "near": near, "loose": [29.0, 33.0, 30.5, 28.0, 34.0, 31.0]}
    judged = judge(same, DENSE, Question(margin=1.5))
    assert [item.verdict for item in judged.values()] == [Verdict.DIFFERENT, Verdict.EQUIVALENT, Verdict.UNDECIDED]
    assert judged["low"].better is False
    assert judged["loose"].needed > 6
    flipped = judge({"low": LOW}, DENSE, Question(lower_is_better=True))
    assert flipped["low"].better is True
    shifted = [score + 0.4 for score in near]
    assert judge({"near": shifted}, DENSE, Question(margin=1.0))["near"].verdict is Verdict.NOT_WORSE


def test_models_at_the_floor_are_untrained_and_never_equivalent():
    stream = np.random.default_rng(2)
    near_chance = [50 + stream.normal(0, 0.2) for _ in range(6)]
    row = [50 + stream.normal(0, 0.2) for _ in range(6)]
    plain = judge({"row": row}, near_chance, Question(margin=0.9))
    assert plain["row"].verdict in (Verdict.EQUIVALENT, Verdict.NOT_WORSE)
    floor = judge({"row": row}, near_chance, Question(margin=0.9), floors=[[50.0]])
    assert floor["row"].verdict is Verdict.UNTRAINED
    better = judge({"row": [score + 20 for score in row]}, near_chance, Question(margin=0.9), floors=[[50.0]])
    assert (better["row"].verdict, better["row"].better, better["row"].trained) == (Verdict.DIFFERENT, True, True)


def test_one_seed_and_no_spread_are_undecided_with_the_reason():
    question = Question(margin=1.0)
    assert "a single seed" in judge({"row": [3.0]}, DENSE, question)["row"].reason
    for reference in ([], [9.0, 9.1, 9.2, 9.3, 1.0]):  # the only seed of a row chose its settings
        uncounted = judge({"row": []}, reference, question, floors=[[2.0]])["row"]
        assert (uncounted.verdict, uncounted.trained) == (Verdict.UNDECIDED, None)
    flat = judge({"row": [30.0] * 4}, [31.0] * 4, question)["row"]
    assert (flat.verdict, flat.difference) == (Verdict.UNDECIDED, None)
    assert "no spread" in flat.reason


def test_collapsed_seeds_get_no_verdict_on_means_but_an_exact_test():
    row = [31.0, 30.7, 2.0, 31.3, 1.5, 30.9]
    judgement = judge({"row": row}, DENSE, Question(margin=1.0))["row"]
    assert judgement.verdict is Verdict.UNDECIDED
    assert judgement.collapsed == (2, 0)
    assert judgement.p_collapsed == pytest.approx(0.4545, abs=1e-4)
    assert collapsed([1.0, math.nan, 1.2, 1.1]) == [1]
    assert collapsed([9.0, 9.1, 8.9, 60.0], lower_is_better=True) == [3]
    lost = judge({"row": [math.nan] * 6}, DENSE, Question())["row"]
    assert (lost.verdict, lost.collapsed) == (Verdict.UNTRAINED, (6, 0))
    below = judge({"row": row}, DENSE, Question(), floors=[[40.0]])["row"]
    assert below.verdict is Verdict.UNTRAINED
    assert below.reason.endswith("the reference does not beat its best floor")
    unknown = judge({"row": DENSE}, row, Question(), floors=[[40.0]])["row"]  # it is not known what dense reaches
    assert (unknown.verdict, unknown.collapsed) == (Verdict.UNDECIDED, (0, 2))
    assert unknown.reason.endswith("and the reference does not beat its best floor")


@pytest.mark.parametrize("lower", [False, True])
def test_a_verdict_against_the_side_of_collapsed_seeds_stands_if_it_holds_without_them(lower):
    out, near = [31.0, 30.7, 2.0, 31.3, 31.1, 30.9], [30.8, 31.2, 30.9, 31.4, 31.1, 31.0]
    less = [28.0, 28.2, 27.9, 28.1]

    def of(row, reference, margin=1.0):
        sides = [[-score for score in side] if lower else side for side in (row, reference)]
        return judge({"row": sides[0]}, sides[1], Question(margin=margin, lower_is_better=lower))["row"]

    # not "equivalent": by its mean the reference is worse
    assert (of(near, out).verdict, of(near, out).difference.seeds) == (Verdict.NOT_WORSE, (6, 5))
    assert "reference 1 of 6, set aside: with them the reference is worse still" in of(near, out).reason
    assert of(less, out).difference.value == pytest.approx(2.95 if lower else -2.95)
    assert of(near, out, margin=None).verdict is Verdict.UNDECIDED
    for row, reference in ((less, out), (out, less), (out, near), (out, out)):  # it may be what dense is
        assert of(row, reference).verdict is Verdict.UNDECIDED
    for row, reference, better in (
        ([score + 9 for score in near], out, True),
        ([score - 9 for score in out], near, False),
    ):
        judged = of(row, reference)
        assert (judged.verdict, judged.better) == (Verdict.DIFFERENT, better)


@pytest.mark.parametrize("count", [60, 1500])
def test_collapsed_seeds_among_many_are_flagged(count):
    scores = [float(value) for value in np.random.default_rng(1).normal(size=count)]
    assert collapsed(scores) == []
    assert collapsed([*scores[1:], -40.0]) == [count - 1]


def test_a_level_may_be_shared_with_rows_not_at_hand():
    alone, shared = (judge({"row": LOW}, DENSE, Question(), rows=rows)["row"] for rows in (0, 8))
    assert shared == judge({"row": LOW, **dict.fromkeys("abcdefg", LOW)}, DENSE, Question())["row"]
    assert shared.difference.p > alone.difference.p


def test_seeds_that_are_needed_detect_the_difference_with_the_power():
    stream = np.random.default_rng(4)
    pilot = [stream.normal(0, 1, 50).tolist() for _ in range(2)]
    needed = seeds_needed(*pilot, 1.0)
    hits = [
        difference(stream.normal(1, 1, needed).tolist(), stream.normal(0, 1, needed).tolist()).p < 0.05
        for _ in range(300)
    ]
    assert 0.7 < np.mean(hits) < 0.92
    assert seeds_needed(*pilot, 0.0) is None


def test_variance_over_items_is_the_same_in_closed_form_and_resampled():
    stream = np.random.default_rng(5)
    easy = stream.uniform(0.3, 1, 400)
    sides = [[(stream.random(400) < easy).astype(float) for _ in range(4)] for _ in range(2)]
    closed = variance_of_means(*sides)
    counts = [np.stack([run, np.ones(400)], axis=1) for side in sides for run in side]
    runs = resampled(counts, lambda sums: sums[:, 0] / sums[:, 1], draws=2000)
    drawn = variance_of_resamples(runs[:4], runs[4:])
    assert drawn.of_items == pytest.approx(closed.of_items, rel=0.1)
    assert drawn.scores[0] == pytest.approx(closed.scores[0])


def test_items_alone_decide_on_fixed_models(stats):
    stream = np.random.default_rng(6)
    first, second = [(stream.random(300) < share).astype(float) for share in (0.9, 0.5)]
    items = {"row": variance_of_means([first], [second])}
    scores = [first.mean()], [second.mean()]
    judgement = judge({"row": scores[0]}, scores[1], Question(over=Population.ITEMS), items=items)["row"]
    assert judgement.verdict is Verdict.DIFFERENT
    assert judgement.difference.p == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-6)
    assert judge({"row": scores[0]}, scores[1], Question(), items=items)["row"].over_items[0] > 0


@pytest.mark.parametrize(("critical", "freedom"), [(2.2, 10), (3.7, 8), (2.8, 40)])
def test_power_at_the_detectable_difference_is_that_of_the_noncentral_t(stats, critical, freedom):
    assert stats.nct.sf(critical, freedom, noncentrality(critical, freedom)) == pytest.approx(0.8, abs=0.01)


def test_the_detectable_difference_of_a_plan_is_that_of_its_seeds():
    seeds = [-1.0, -0.5, 0.0, 0.5, 1.0]
    shown = difference(seeds, [score + 3 for score in seeds], rows=4)
    assert detectable_deviations(5, 4) * stdev(seeds) == pytest.approx(shown.detectable)
