"""Attachment scores: by hand, and against the official evaluator on written files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.errors import ExitCode, PhmrunError
from phmrun.metrics.parsing import attachment_scores
from phmrun.text import conllu

GOLD = [
    conllu.sentence_of(["We", "saw", "it", "."]).with_parse([2, 0, 2, 2], ["nsubj", "root", "obj", "punct"]),
    conllu.sentence_of(["of", "hers", "!"]).with_parse([2, 0, 2], ["case", "root", "punct"]),
]
PARSED = [
    GOLD[0].with_parse([2, 0, 1, 3], ["nsubj:pass", "root", "obj", "punct"]),
    GOLD[1].with_parse([2, 0, 2], ["obl", "root", "punct:x"]),
]


def values(**options):
    return {name: score.value for name, score in attachment_scores(GOLD, PARSED, **options).items()}


def test_scores_by_hand():
    assert values() == pytest.approx(
        {"uas": 500 / 7, "las": 400 / 7, "clas": 2 * 300 / (4 + 5), "label-accuracy": 600 / 7}
    )


def test_signatures_name_every_option():
    plain = attachment_scores(GOLD, PARSED)["las"]
    assert plain.signature == "def:conll2017|labels:universal|punct:in|words:gold|bs:1000|seed:12345"
    assert (plain.n, plain.unit) == (7, "words")
    other = attachment_scores(GOLD, PARSED, subtypes=True, punctuation=False)["las"]
    assert other.signature == "def:conll2017|labels:full|punct:out|words:gold|bs:1000|seed:12345"
    assert other.n == 5


def test_other_words_are_an_error():
    with pytest.raises(PhmrunError, match="words differ") as caught:
        attachment_scores(GOLD, PARSED[:1])
    assert caught.value.code is ExitCode.DATA
    with pytest.raises(PhmrunError, match="no word"):
        attachment_scores([], [])
    full_stop = [conllu.sentence_of(["."]).with_parse([0], ["root"])]
    with pytest.raises(PhmrunError, match="no word"):
        attachment_scores(full_stop, full_stop, punctuation=False)


def official(gold: Path, parsed: Path) -> dict[str, tuple[float, int]]:
    """UAS, LAS and CLAS (F1, and correct words) of the evaluator of the shared tasks, in a process of its own."""
    pytest.importorskip("udtools")
    program = (
        "import json, sys; from udtools.udeval import evaluate, load_conllu_file as load; "
        "scores = evaluate(load(sys.argv[1]), load(sys.argv[2])); "
        "print(json.dumps({name: (100 * scores[name].f1, scores[name].correct) for name in ('UAS', 'LAS', 'CLAS')}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(gold), str(parsed)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def compare(folder: Path, gold: list[conllu.Sentence], parsed: list[conllu.Sentence]) -> None:
    (folder / "gold.conllu").write_text(conllu.dumps(gold))
    (folder / "parsed.conllu").write_text(conllu.dumps(parsed))
    theirs = official(folder / "gold.conllu", folder / "parsed.conllu")
    ours = attachment_scores(gold, parsed)
    assert {score.name: score.value for score in ours.values() if score.name in theirs} == pytest.approx(
        {name: value for name, (value, _) in theirs.items()}, rel=1e-12
    )


LABELS = ("nsubj", "nsubj:pass", "nmod:poss", "case", "punct", "aux", "root", "made-up", "dep", "acl:relcl", "cc:x")


@st.composite
def treebanks(draw):
    """Sentences twice, with two trees each: a word's head is the root's word or a word before it."""
    gold, parsed = [], []
    for _ in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 6))
        sentence = conllu.sentence_of([f"w{number}" for number in range(size)])
        for trees in (gold, parsed):
            heads = [0, *(draw(st.integers(1, number)) for number in range(1, size))]
            trees.append(sentence.with_parse(heads, [draw(st.sampled_from(LABELS)) for _ in range(size)]))
    return gold, parsed


@settings(max_examples=10, deadline=None)
@given(trees=treebanks())
def test_the_official_evaluator_agrees(tmp_path_factory, trees):
    compare(tmp_path_factory.mktemp("trees"), *trees)


def test_the_official_evaluator_agrees_on_a_treebank(tmp_path):
    folder = Path(os.environ.get("PHMRUN_DATA", "none")) / "ud" / "UD_French-ParTUT"
    if not folder.is_dir():
        pytest.skip("no UD_French-ParTUT under PHMRUN_DATA")
    gold = conllu.load(folder / "fr_partut-ud-test.conllu")
    parsed = []
    for sentence in gold:  # labels of the word before, and words hung on the root's word here and there
        root = sentence.heads.index(0) + 1
        heads = [head if number % 7 or not head else root for number, head in enumerate(sentence.heads, 1)]
        heads = [head if head != number else sentence.heads[number - 1] for number, head in enumerate(heads, 1)]
        labels = [*sentence.deprels[:1], *sentence.deprels[:-1]]
        parsed.append(
            sentence.with_parse(heads, [labels[i] if i % 5 == 0 else old for i, old in enumerate(sentence.deprels)])
        )
    compare(tmp_path, gold, parsed)
