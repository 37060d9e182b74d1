"""The built-in treebank: valid trees, trees written out by hand, leakage, reproducibility and baselines."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from phmrun.datasets.builtin import treebank_sentences
from phmrun.datasets.builtin.pairings import HELD_OUT, pairings
from phmrun.datasets.builtin.treebank_sentences import (
    TREEBANK_VERSION,
    TreebankSentence,
    conllu_block,
    neighbour_baseline,
    treebank,
    write_treebank,
)
from phmrun.text import conllu

# Of the default treebank; a change of any tree must come with a new TREEBANK_VERSION.
GOLDEN_VERSION = 1
GOLDEN_SHA256 = "af4401a1455c0f4f63313f33485339157da3690bd8ee293ddb320ebaa7e5eb79"
RELATIONS = frozenset(
    (
        *("nsubj", "nsubj:pass", "obj", "iobj", "obl", "obl:agent", "obl:tmod", "obl:npmod", "xcomp", "ccomp", "advcl"),
        *("acl:relcl", "advmod", "amod", "nummod", "nmod", "nmod:poss", "det", "case", "fixed", "flat", "mark", "cop"),
        *("aux", "aux:pass", "compound:prt", "cc", "conj", "vocative", "punct", "root"),
    )
)
UPOS = frozenset(
    (
        *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ"),
        "VERB",
    )
)
# Word, number of its head, relation: written by hand after the guidelines.
TREES = [
    "The/3/det famous/3/amod policeman/6/nsubj can/6/aux not/6/advmod know/0/root when/10/advmod the/9/det "
    "grandfathers/10/nsubj counted/6/ccomp our/12/nmod:poss cloud/10/obj if/18/mark the/15/det goat/18/nsubj "
    "does/18/aux not/18/advmod belong/6/advcl to/20/case him/18/obl ./6/punct",
    "The/2/det sister/6/nsubj of/5/case the/5/det child/2/nmod wants/0/root to/8/mark hurry/6/xcomp "
    "now/8/advmod ./6/punct",
    "The/2/det engineer/9/nsubj with/6/case the/6/det healthy/6/amod dog/2/nmod does/9/aux not/9/advmod "
    "become/0/root famous/9/xcomp ./9/punct",
    "Who/3/nsubj will/3/aux draw/0/root the/5/det singer/3/obj with/8/case the/8/det pens/3/obl ?/3/punct",
    "What/7/obj does/5/aux the/4/det bear/5/nsubj want/0/root to/7/mark attack/5/xcomp on/9/case "
    "Wednesday/7/obl ?/5/punct",
    "The/3/det empty/3/amod suitcase/7/nsubj:pass has/7/aux not/7/advmod been/7/aux:pass carried/0/root ./7/punct",
    "The/2/det aunt/4/nsubj sometimes/4/advmod pushes/0/root an/7/det old/7/amod armchair/4/obj in/12/case "
    "front/8/fixed of/8/fixed these/12/det trees/4/obl ./4/punct",
    "Lena/3/nmod:poss 's/1/case flower/13/nsubj that/7/obj these/6/det actresses/7/nsubj promised/3/acl:relcl "
    "to/11/case the/11/det good/11/amod secretary/7/obl is/13/cop yellow/0/root ./13/punct",
    "Two/2/nummod days/3/obl:npmod ago/6/advmod a/5/det nurse/6/nsubj taught/0/root the/9/det good/9/amod "
    "aunt/6/obj who/11/nsubj disappeared/9/acl:relcl next/15/case to/12/fixed the/15/det library/11/obl "
    "./6/punct",
    "Their/2/nmod:poss lawyer/7/nsubj whose/4/nmod:poss truck/6/nsubj is/6/cop slow/2/acl:relcl "
    "explained/0/root her/9/nmod:poss name/7/obj to/12/case the/12/det girl/7/obl in/14/case May/7/obl "
    "when/17/mark he/17/nsubj entered/7/advcl the/19/det cellar/17/obj carefully/17/advmod ./7/punct",
    "This/2/det child/3/nsubj comes/0/root back/3/advmod when/9/mark that/7/det donkey/9/nsubj is/9/cop "
    "younger/3/advcl than/12/case the/12/det duck/9/obl ./3/punct",
    "Mr/6/vocative Wagner/1/flat ,/1/punct have/6/aux you/6/nsubj fallen/0/root in/8/case love/6/obl "
    "with/11/case a/11/det father/6/obl ?/6/punct",
    "The/3/det famous/3/amod musician/11/nsubj:pass who/7/obl Mrs/7/nsubj Wagner/5/flat looked/3/acl:relcl "
    "for/4/case carefully/7/advmod was/11/aux:pass attacked/0/root by/14/case the/14/det man/11/obl:agent "
    "./11/punct",
    "In/3/case the/3/det winter/9/obl the/6/det ill/6/amod hunters/9/nsubj do/9/aux not/9/advmod take/0/root "
    "off/9/compound:prt their/13/nmod:poss beautiful/13/amod shirt/9/obj that/16/obj she/16/nsubj "
    "threw/13/acl:relcl away/16/advmod secretly/16/advmod ./9/punct",
    "Because/4/mark the/3/det customers/4/nsubj offer/13/advcl Tom/4/iobj this/8/det big/8/amod pen/4/obj "
    ",/4/punct the/12/det proud/12/amod friends/13/nsubj run/0/root a/15/det hospital/13/obj ./13/punct",
    "After/5/mark few/3/amod princes/5/nsubj had/5/aux disappeared/12/advcl in/8/case the/8/det forests/5/obl "
    ",/5/punct these/11/det grandmothers/12/nsubj crossed/0/root the/14/det bridge/12/obj ./12/punct",
]


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[TreebankSentence]]:
    return treebank()


def text_of(corpus: dict[str, list[TreebankSentence]]) -> str:
    return "".join(
        conllu_block(s, f"{name}-{number}") + s.part for name in corpus for number, s in enumerate(corpus[name])
    )


def crossing(heads: list[int]) -> bool:
    arcs = [(min(index, head), max(index, head)) for index, head in enumerate(heads, 1) if head]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_golden(corpus: dict[str, list[TreebankSentence]]) -> None:
    assert TREEBANK_VERSION == GOLDEN_VERSION
    assert hashlib.sha256(text_of(corpus).encode()).hexdigest() == GOLDEN_SHA256


def test_sizes_parts_and_no_sentence_twice(corpus: dict[str, list[TreebankSentence]]) -> None:
    assert {name: len(sentences) for name, sentences in corpus.items()} == {"train": 4_000, "dev": 500, "test": 500}
    assert Counter(s.part for s in corpus["test"]) == {"seen": 400, "novel": 100}
    texts = [s.text for sentences in corpus.values() for s in sentences]
    assert len(texts) == len(set(texts))
    trained = {name for split in ("train", "dev") for s in corpus[split] for name in pairings(s.derivation)}
    assert not trained & set(HELD_OUT)


@pytest.mark.parametrize("expected", TREES, ids=lambda tree: tree.split("/")[0] + tree[-30:])
def test_trees_written_by_hand(corpus: dict[str, list[TreebankSentence]], expected: str) -> None:
    rows = [word.split("/") for word in expected.split()]
    found = [s for s in corpus["train"] if [word.form for word in s.words] == [form for form, _, _ in rows]]
    assert len(found) == 1
    assert [[w.form, str(w.head), w.deprel] for w in found[0].words] == rows


def test_every_tree_is_valid(corpus: dict[str, list[TreebankSentence]]) -> None:
    # The reader checks columns, ids, heads, cycles and the single root.
    for sentences in corpus.values():
        read = conllu.loads("".join(conllu_block(s, str(number)) for number, s in enumerate(sentences)))
        assert [s.forms for s in read] == [tuple(w.form for w in s.words) for s in sentences]
        for s in sentences:
            assert {w.deprel for w in s.words} <= RELATIONS
            assert {w.tag.upos for w in s.words} <= UPOS
            for w in s.words:
                assert (w.head == 0) == (w.deprel == "root")
                features = w.tag.feats.split("|")
                assert features == sorted(features, key=str.lower)


def test_text_is_rebuilt_from_words_and_space_after(corpus: dict[str, list[TreebankSentence]]) -> None:
    for s in corpus["test"]:
        rows = [line.split("\t") for line in conllu_block(s, "1").splitlines() if line and line[0] != "#"]
        text = "".join(row[1] + ("" if row[9] == "SpaceAfter=No" else " ") for row in rows)
        assert text.strip() == s.text


def test_relations_fit_the_words(corpus: dict[str, list[TreebankSentence]]) -> None:
    for s in corpus["train"]:
        for w in s.words:
            head = s.words[w.head - 1] if w.head else None
            match w.deprel:
                case "det":
                    assert w.tag.upos == "DET"
                    assert head is not None
                    assert head.tag.upos == "NOUN"
                case "nsubj" if head is not None and head.tag.xpos in ("VBZ", "VBP") and w.tag.upos == "NOUN":
                    plural = w.tag.xpos == "NNS" or any(
                        c.deprel == "conj" and s.words[c.head - 1] is w for c in s.words
                    )
                    assert head.tag.xpos == ("VBP" if plural else "VBZ"), s.text
                case "aux:pass":
                    assert head is not None
                    assert head.tag.feats == "Tense=Past|VerbForm=Part|Voice=Pass"
                case "obl" | "nmod" if w.tag.upos == "NOUN":
                    assert any(c.deprel == "case" and s.words[c.head - 1] is w for c in s.words), s.text
                case _:
                    pass


def test_few_arcs_cross_and_attachment_needs_the_words(corpus: dict[str, list[TreebankSentence]]) -> None:
    crossed = sum(crossing([w.head for w in s.words]) for s in corpus["train"])
    assert 5 <= crossed <= 100
    # After an object, "with" belongs to the verb or to the noun: only the words tell.
    found: Counter[str] = Counter()
    for s in corpus["train"]:
        for index, w in enumerate(s.words):
            noun = s.words[w.head - 1]
            if w.form == "with" and s.words[index - 1].deprel == "obj" and noun.deprel in ("obl", "nmod"):
                found[noun.deprel] += 1
    assert min(found.values()) >= 8
    assert len(found) == 2


def columns(s: TreebankSentence) -> tuple[list[str], list[int], list[str]]:
    return [w.tag.upos for w in s.words], [w.head for w in s.words], [w.deprel for w in s.words]


def test_baseline_is_weak(corpus: dict[str, list[TreebankSentence]]) -> None:
    parses = neighbour_baseline(map(columns, corpus["train"]), [columns(s)[0] for s in corpus["test"]])
    gold = [(w.head, w.deprel) for s in corpus["test"] for w in s.words]
    found = [arc for heads, labels in parses for arc in zip(heads, labels, strict=True)]
    attached = sum(a[0] == b[0] for a, b in zip(found, gold, strict=True)) / len(gold)
    labelled = sum(a == b for a, b in zip(found, gold, strict=True)) / len(gold)
    assert 0.3 < labelled <= attached < 0.6


def test_baseline_by_hand() -> None:
    train = [(["DET", "NOUN", "VERB"], [2, 3, 0], ["det", "nsubj", "root"])]
    parses = neighbour_baseline(train, [["DET", "NOUN", "VERB", "ADJ"], ["NOUN"]])
    assert parses == [([2, 3, 0, 3], ["det", "nsubj", "root", "dep"]), ([0], ["nsubj"])]


def test_another_seed_is_another_treebank_and_sizes_do_not_change_test() -> None:
    small = treebank(2, sizes={"train": 20, "dev": 5, "test": 10})
    again = treebank(2, sizes={"train": 30, "dev": 5, "test": 10})
    assert small["test"] == again["test"]
    assert small["train"] == again["train"][:20]
    other = treebank(3, sizes={"train": 20, "dev": 5, "test": 10})
    assert not {s.text for s in small["train"]} & {s.text for s in other["train"]}


def test_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = treebank(5, sizes={"train": 30, "dev": 5, "test": 10})
    monkeypatch.setattr(treebank_sentences, "treebank", lambda seed: small)
    write_treebank(tmp_path / "new", 5)
    written = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert written == ["dev.conllu", "test.conllu", "test.part", "train.conllu"]
    read = conllu.load(tmp_path / "new" / "train.conllu")
    assert [s.heads for s in read] == [tuple(w.head for w in s.words) for s in small["train"]]
    assert read[0].lines[:2] == ("# sent_id = train-0001\n", f"# text = {small['train'][0].text}\n")
    assert (tmp_path / "new" / "test.part").read_text(encoding="utf-8").count("novel") == 2
