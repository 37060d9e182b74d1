"""Means of sentence scores against sacreBLEU's own sentence scores, and against values that NLTK 3.2.5 gave."""

import os
from pathlib import Path

import pytest
import sacrebleu

from phmrun.metrics import bleu, sentence_bleu, sentence_bleu_nltk

# hypothesis, reference, what nltk.translate.bleu_score.sentence_bleu of NLTK 3.2.5 gives for their words with
# SmoothingFunction().method4; 0 where it raised ZeroDivisionError
NLTK = [
    ("the cat sat on the mat .", "the cat sat on the mat .", 1.0),
    ("the cat sat on a mat .", "the small cat sat on the mat .", 0.29318534769424004),
    ("Dost thou know me ?", "Do you know me , sir ?", 0.20170387630378334),
    ("I know not what you say , my good lord .", "I do not know what thou sayest , good lord .", 0.2465400872719333),
    ("Yes .", "Ay , yes .", 0.0),
    ("Yes .", "Yes .", 0.0),
    ("no word", "shared here", 0.0),
    ("the the the the", "the cat", 0.19564209772076444),
    ("What 's that ?", "What is that thing over there , pray ?", 0.05851094938515027),
    ("", "nothing said", 0.0),
]
HYPOTHESES, REFERENCES, VALUES = (list(column) for column in zip(*NLTK, strict=True))


@pytest.mark.parametrize(("hypothesis", "reference", "value"), NLTK)
def test_each_sentence_is_what_nltk_gave(hypothesis, reference, value):
    assert sentence_bleu_nltk([hypothesis], [reference]).value == pytest.approx(100 * value, abs=1e-10)


def test_the_mean_of_sacrebleus_sentence_scores():
    score = sentence_bleu(HYPOTHESES, REFERENCES)
    theirs = [
        sacrebleu.sentence_bleu(first, [other]).score for first, other in zip(HYPOTHESES, REFERENCES, strict=True)
    ]
    assert score.value == pytest.approx(sum(theirs) / len(theirs))
    assert score.value != pytest.approx(bleu(HYPOTHESES, REFERENCES, resamples=0).value, abs=1)
    assert score.signature.startswith("nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:")
    assert score.signature.endswith("|mean:sentences")


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="PHMRUN_DATA is not set")
def test_copying_the_modern_lines_of_shakespeare():
    folder = Path(os.environ["PHMRUN_DATA"]) / "shakespeare"
    if not folder.is_dir():
        pytest.skip("no shakespeare")
    modern, original = (
        (folder / f"test.{style}.nltktok").read_text(encoding="utf-8").splitlines() for style in ("modern", "original")
    )
    assert bleu(modern, original, resamples=0).value == pytest.approx(19.70, abs=0.005)
    assert sentence_bleu(modern, original).value == pytest.approx(25.62, abs=0.005)
    nltk = sentence_bleu_nltk(modern, original)
    assert nltk.value == pytest.approx(24.7630535368118)  # what NLTK 3.2.5 gives
    assert nltk.extras["first_500"] == pytest.approx(23.575104996291376)
