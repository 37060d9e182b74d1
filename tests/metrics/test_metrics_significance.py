"""The paired test against sacreBLEU's own, against an exact distribution, and where nothing differs."""

import math
import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from phmrun.metrics import bleu
from phmrun.metrics.bleu_counts import bleu_counts, bleu_of
from phmrun.metrics.significance import paired_bootstrap

WORDS = ["the", "a", "old", "young", "teacher", "child", "sees", "calls", "up", "loves", "dog", "house", "in", ",", "."]


def corrupted(references, share, seed):
    """Sentences in which a share of the words is another one."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < share else word for word in reference.split())
        for reference in references
    ]


@pytest.fixture(scope="module")
def references():
    draw = random.Random(0)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(4, 15))) for _ in range(200)]


def share(sums):
    return 100 * sums[:, 0] / sums[:, 1]


def test_counts_add_up_to_corpus_bleu(references):
    outputs = corrupted(references, 0.3, 1)
    counts = bleu_counts(outputs, references)
    assert counts.shape == (200, 10)
    assert bleu_of(counts.sum(axis=0, keepdims=True))[0] == pytest.approx(bleu(outputs, references, resamples=0).value)
    some = counts[:7].sum(axis=0, keepdims=True)
    assert bleu_of(some)[0] == pytest.approx(bleu(outputs[:7], references[:7], resamples=0).value)


@pytest.mark.parametrize(("first", "second"), [(0.30, 0.34), (0.30, 0.36), (0.2, 0.4)])
def test_p_values_are_twice_sacrebleus(references, first, second):
    """Which counts the differences of one direction only."""
    outputs = {"base": corrupted(references, first, 2), "other": corrupted(references, second, 3)}
    metrics = {"BLEU": BLEU(references=[references])}
    _, theirs = PairedTest(list(outputs.items()), metrics, references=None, test_type="bs", n_samples=2000)()
    expected = theirs["BLEU"][1].p_value
    counts = {name: bleu_counts(lines, references) for name, lines in outputs.items()}
    ours = paired_bootstrap([counts["other"]], [counts["base"]], bleu_of, 2000)
    spread = math.sqrt(expected * (1 - expected) / 2000)
    assert abs(ours.p - 2 * expected) <= 8 * spread + 0.003
    assert ours.value == pytest.approx(theirs["BLEU"][1].score - theirs["BLEU"][0].score)
    assert ours.ci[0] < ours.value < ours.ci[1]


def test_of_two_equal_systems_nothing_is_said(references):
    counts = bleu_counts(corrupted(references, 0.3, 1), references)
    same = paired_bootstrap([counts], [counts], bleu_of)
    assert (same.value, same.p, same.ci) == (0.0, 1.0, (0.0, 0.0))


def test_accuracies_against_the_exact_sign_test():
    """Of 400 items one system alone has 40 right, the other alone 20: the sign test's p is that of 40 of 60."""
    both = [(1, 1)] * 200 + [(1, 0)] * 40 + [(0, 1)] * 20 + [(0, 0)] * 140
    first, second = (np.array([[pair[side], 1.0] for pair in both]) for side in (0, 1))
    found = paired_bootstrap([first], [second], share, 4000)
    exact = 2 * sum(math.comb(60, k) for k in range(40, 61)) / 2**60
    assert found.value == pytest.approx(5.0)
    assert found.p == pytest.approx(exact, abs=0.01)


def test_runs_of_a_system_are_averaged():
    draw = np.random.default_rng(0)
    runs = [np.stack([draw.random(300) < 0.5 + 0.1 * lift, np.ones(300)], axis=1).astype(float) for lift in (0, 1, 2)]
    found = paired_bootstrap(runs[1:], runs[:1], share)
    singles = [100 * run[:, 0].mean() for run in runs]
    assert found.value == pytest.approx((singles[1] + singles[2]) / 2 - singles[0])


def test_other_items_are_refused():
    with pytest.raises(ValueError, match="same items"):
        paired_bootstrap([np.ones((3, 2))], [np.ones((4, 2))], share)
