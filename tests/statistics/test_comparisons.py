"""The statistics of a comparison, against closed forms, SciPy, exhaustive enumeration and simulation."""

import random
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from phmrun.metrics.translation import bleu_counts, bleu_of
from phmrun.statistics.decision import Verdict, decide, detectable, holm, p_not_worse
from phmrun.statistics.hierarchical import compare_items, compare_scores
from phmrun.statistics.sequential import Design, crossing, decisions
from phmrun.statistics.sign_flip import sign_flip, smallest_p
from phmrun.statistics.student import interval_of_mean, interval_of_one_run, t_cdf, t_quantile


@pytest.fixture(scope="module")
def stats():
    """SciPy's, where it is installed."""
    return pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 9, 40, 1000])
@pytest.mark.parametrize("t", [-6.0, -1.5, 0.0, 0.3, 2.0, 12.0])
def test_students_distribution_is_scipys(stats, t, freedom):
    assert t_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("freedom", [1, 2.5, 9, 200])
def test_students_quantiles_are_scipys(stats, freedom):
    for share in (0.025, 0.5, 0.8, 0.975, 0.9995):
        assert t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-8, abs=1e-9)


def test_intervals_of_a_mean_and_of_one_run(stats):
    values = [30.0, 31.0, 32.5]
    low, high = interval_of_mean(values)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 2, np.mean(values), stats.sem(values)))
    wide = interval_of_one_run(values)
    assert wide[1] - wide[0] == pytest.approx((high - low) * 2)  # √(1 + 1/3) / √(1/3)
    assert interval_of_mean([30.0]) is None


def test_sign_flip_is_the_enumeration():
    values = [0.4, -0.1, 0.7, 0.2]
    sums = [abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=4)]
    actual = sign_flip(values)
    assert actual.p == sum(item >= sum(values) - 1e-12 for item in sums) / 16
    assert [smallest_p(n) for n in (3, 6)] == [0.25, 0.03125]
    assert sign_flip([1.0] * 6).p == sign_flip([1.0] * 6).smallest == 0.03125
    assert sign_flip([0.0, 0.0]).p == 1.0
    assert sign_flip([1.0] * 25).p < 1e-4  # drawn, not enumerated


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_seeds_alone_are_the_t_tests(stats):
    first, other = [30.1, 30.9, 31.4, 30.0], [29.0, 29.9, 30.2, 29.3]
    assert compare_scores(first, other, paired=True).p == pytest.approx(stats.ttest_rel(first, other).pvalue)
    welch = stats.ttest_ind(first, other, equal_var=False)
    assert compare_scores(first, other, paired=False).p == pytest.approx(welch.pvalue, rel=1e-6)
    assert compare_scores([1.0], [2.0], paired=True) is None


def _share(sums):
    return 100 * sums[:, 0] / sums[:, 1]


def _runs(stream, seeds, items, shift=0.0, spread=0.02, chance=None):
    """Labels right or wrong: an item's own chance, moved by the system and by the seed."""
    chance = stream.uniform(0.5, 1.0, size=items) if chance is None else chance
    created = []
    for _ in range(seeds):
        right = stream.random(items) < np.clip(chance + shift + stream.normal(0, spread), 0, 1)
        created.append(np.stack([right, np.ones(items)], axis=1).astype(float))
    return created


def test_items_and_seeds_together_cover_the_truth():
    """95 % intervals hold the true difference of 0 in at least 93 % of the draws (here of 60, with their error)."""
    stream = np.random.default_rng(3)
    held = 0
    for _ in range(60):
        chance = stream.uniform(0.5, 1.0, size=120)
        actual = compare_items(
            _runs(stream, 3, 120, chance=chance), _runs(stream, 3, 120, chance=chance), _share, paired=False, draws=100
        )
        low, high = actual.interval()
        held += low <= 0 <= high
    assert held >= 52


WORDS = ["the", "a", "old", "young", "teacher", "child", "sees", "calls", "up", "loves", "dog", "house", "in", ",", "."]


def test_seeds_that_agree_by_chance_leave_the_items_error():
    """Two seeds of the same score: the error is that of the items for these runs."""
    stream = np.random.default_rng(2)
    right = [stream.permutation(np.arange(400) < total).astype(float)[:, None] for total in (250, 250, 240, 240)]
    actual = compare_items(right[:2], right[2:], lambda sums: sums[:, 0] / 4, paired=True)
    of_items = (sum(right[:2]) - sum(right[2:]))[:, 0] / 2
    assert actual.value == 2.5
    assert actual.error == pytest.approx(100 * of_items.std() / 400**0.5, rel=0.1)


@pytest.mark.parametrize("share", [0.34, 0.36])
def test_p_values_over_items_are_about_twice_sacrebleus(share):
    """Reference bootstrap that counts the differences of one direction only."""
    draw = random.Random(0)
    references = [" ".join(draw.choices(WORDS, k=draw.randrange(4, 15))) for _ in range(200)]
    outputs = {
        name: [
            " ".join(draw.choice(WORDS) if draw.random() < part else word for word in line.split())
            for line in references
        ]
        for name, part in (("base", 0.3), ("other", share))
    }
    metrics = {"BLEU": BLEU(references=[references])}
    _, theirs = PairedTest(list(outputs.items()), metrics, references=None, test_type="bs", n_samples=1000)()
    counts = {name: bleu_counts(lines, references) for name, lines in outputs.items()}
    ours = compare_items([counts["other"]], [counts["base"]], bleu_of, paired=True, draws=500)
    assert ours.value == pytest.approx(theirs["BLEU"][1].score - theirs["BLEU"][0].score)
    assert ours.p == pytest.approx(2 * theirs["BLEU"][1].p_value, abs=0.04)


def test_other_items_are_refused():
    with pytest.raises(ValueError, match="the same items of every run"):
        compare_items([np.ones((3, 2))], [np.ones((4, 2))], _share, paired=True)


def test_one_seed_decides_nothing():
    stream = np.random.default_rng(1)
    actual = compare_items(_runs(stream, 1, 300, shift=-0.3), _runs(stream, 1, 300), _share, paired=True, draws=200)
    assert actual.p < 0.001
    (decision,) = decide([actual], lower_is_better=False)
    assert (decision.verdict, decision.one_seed) == (Verdict.UNDECIDED, True)


def test_different_not_worse_and_undecided():
    far = compare_scores([20.0, 20.2, 20.1, 19.9], [30.0, 30.1, 29.9, 30.2], paired=False)
    near = compare_scores([30.0, 30.1, 30.0, 30.1], [30.0, 30.1, 29.95, 30.1], paired=False)
    loose = compare_scores([29.0, 31.0, 30.5, 28.0], [30.0, 30.1, 29.9, 30.2], paired=False)
    actual = decide([far, near, loose], lower_is_better=False, margin=0.5)
    assert [item.verdict for item in actual] == [Verdict.DIFFERENT, Verdict.NOT_WORSE, Verdict.UNDECIDED]
    assert not actual[0].better
    assert actual[2].detectable > abs(loose.value)
    assert p_not_worse(far, 0.5, lower_is_better=True) < 0.001  # perplexity: less is better


def test_what_could_have_been_seen_has_the_power_that_is_said():
    stream = np.random.default_rng(2)
    base = compare_scores(stream.normal(size=40), stream.normal(size=40), paired=False)
    size = detectable(base)
    seen = [
        compare_scores(stream.normal(size, 1, 40), stream.normal(size=40), paired=False).p <= 0.05 for _ in range(400)
    ]
    assert 0.72 <= np.mean(seen) <= 0.9


def _exhaustive(row, base, design, level):
    """The same test without a shortcut: every deal of every block, path by path."""
    looks, blocks, before = design.looks, [], 0
    for look in looks:
        runs = np.concatenate([row[before:look], base[before:look]])
        size = look - before
        blocks.append(
            [sum(runs[list(c)]) - sum(np.delete(runs, c)) for c in map(list, combinations(range(2 * size), size))]
        )
        before = look
    paths = [np.cumsum(deal) for deal in product(*blocks)]
    ours = np.cumsum([blocks[k][0] for k in range(len(looks))])
    alive, spent = list(range(len(paths))), 0
    for k, look in enumerate(looks):
        sizes = sorted((abs(paths[i][k]) for i in alive), reverse=True)
        allowed = int(level * look / design.max_seeds * len(paths) + 1e-9) - spent
        # the largest set of paths, ties together, that may still cross
        boundary = next(
            (value for value in sorted(set(sizes)) if sum(s > value + 1e-9 for s in sizes) <= allowed), np.inf
        )
        if abs(ours[k]) > boundary + 1e-9:
            return look
        spent += sum(s > boundary + 1e-9 for s in sizes)
        alive = [i for i in alive if abs(paths[i][k]) <= boundary + 1e-9]
    return None


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0, 4.0])
def test_the_sequential_test_is_the_exhaustive_one(shift):
    stream = np.random.default_rng(int(shift * 10))
    design = Design(max_seeds=6)
    assert design.looks == (5, 6)
    for _ in range(3):
        row, base = stream.normal(shift, 1, 6), stream.normal(0, 1, 6)
        for level in (0.05, 0.2):
            assert crossing(row, base, design, level, two_sided=True) == _exhaustive(row, base, design, level)


def test_the_share_of_deals_that_cross_is_the_level_at_most():
    """All deals of the first block as data: exactly as many are called different as the level allows."""
    values = np.random.default_rng(5).normal(size=10)
    design = Design(max_seeds=5)
    called = 0
    for chosen in combinations(range(10), 5):
        rest = [place for place in range(10) if place not in chosen]
        called += crossing(values[list(chosen)], values[rest], design, 0.05, two_sided=True) is not None
    assert called == 2 * int(0.05 * comb(10, 5) / 2)


def test_several_rows_share_the_level_and_hand_it_on():
    design = Design(max_seeds=7, margin=1.0)
    base = [30.0, 30.2, 29.9, 30.1, 30.05, 30.15, 29.95]
    far = [value - 5 for value in base]
    same = [value + 0.01 for value in reversed(base)]
    actual = decisions(design, [far, same], base)
    assert [item.verdict for item in actual] == [Verdict.DIFFERENT, Verdict.NOT_WORSE]
    assert actual[0].seeds == 5
    assert not actual[0].better
    assert decisions(design, [far[:4]], base)[0] == decisions(design, [far], base[:4])[0]  # before the first look
    lower = decisions(Design(max_seeds=7, lower_is_better=True), [far], base)
    assert lower[0].better
    assert lower[0].verdict is Verdict.DIFFERENT


def test_better_says_more_than_not_worse_at_an_earlier_look():
    design = Design(max_seeds=6, margin=0.5)
    base = [30.0, 31.0, 29.0, 30.5, 29.5, 30.2]
    others = [[29.6, 30.9, 29.4, 30.3, 29.9, 30.1]] * 7  # with so many, five seeds show one direction only
    actual = decisions(design, [[value + 5 for value in base], *others], base)[0]
    assert (actual.verdict, actual.seeds, actual.better) == (Verdict.DIFFERENT, 6, True)
    at_five = decisions(design, [[value + 5 for value in base[:5]], *others], base)[0]
    assert (at_five.verdict, at_five.seeds) == (Verdict.NOT_WORSE, 5)


def test_a_verdict_does_not_hang_on_the_seeds_of_another_row():
    """The row crosses at a sixth of the level, but not at a fifth, which spends more at the first look."""
    design = Design(max_seeds=6)
    base = np.array([11.44, 12.75, 11.46, 9.3, 12.67, 13.09])
    row = np.array([7.17, 9.38, 7.18, 4.63, 8.43, 3.75])
    assert [crossing(row, base, design, 0.05 / left, two_sided=True) for left in (6, 5, 4)] == [6, None, 6]
    far, same = base + 9, base[::-1]
    for seeds in (5, 6):
        actual = decisions(design, [row, far, far, far[:seeds], same, same, same, same], base)
        assert actual[0].verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("rows", [1, 3])
def test_false_alarms_and_savings(rows):
    """Under the null at most 5 % of families have an alarm; a difference of 3 deviations needs fewer than 10 seeds."""
    stream = np.random.default_rng(rows)
    design = Design(max_seeds=10)
    alarms, seeds = 0, []
    for _ in range(60):
        base = stream.normal(size=10)
        null = decisions(design, [stream.normal(size=10) for _ in range(rows)], base)
        alarms += any(item.verdict is Verdict.DIFFERENT for item in null)
        seeds += [item.seeds for item in decisions(design, [stream.normal(3, 1, 10) for _ in range(rows)], base)]
    assert alarms <= 7  # of 60; 3 are expected at most
    assert np.mean(seeds) < 7
