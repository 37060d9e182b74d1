"""The built-in corpus: sizes, leakage, reproducibility, lexicon, baselines and agreement seen from the surface."""

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest
import sacrebleu

from phmrun.datasets.builtin import VERSION, Pair, dictionary_baseline, translation, write_translation
from phmrun.datasets.builtin import english as english_linearisation
from phmrun.datasets.builtin import german as german_linearisation
from phmrun.datasets.builtin.lexicon import lemmas, lexicon
from phmrun.datasets.builtin.pairings import HELD_OUT, pairings
from phmrun.datasets.builtin.tree import HEAD, HEAD_ROLES, Adverb, Clause, Name, NounPhrase, Predicate, children, walk
from phmrun.errors import PhmrunError

# Of the default corpus; a change of any sentence must come with a new VERSION.
GOLDEN_VERSION = 1
GOLDEN_SHA256 = "d104a3f4db269a356b4ed5b3fd6d276145393150d02b47e18e1e0841a2966325"
GOLDEN = [
    (
        "He did not read the sad hungry girl the messages.",
        "Er las dem traurigen hungrigen Mädchen die Nachrichten nicht vor.",
    ),
    (
        "Paul, have you broken his mirrors slowly at the square?",
        "Paul, hast du seine Spiegel langsam auf dem Platz zerbrochen?",
    ),
    (
        "Julia looks for the shirts.",
        "Julia sucht die Hemden.",
    ),
    (
        "When did this tired lazy colleague introduce a waiter to us?",
        "Wann stellte uns dieser müde faule Kollege einen Kellner vor?",
    ),
]


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Pair]]:
    return translation()


def text_of(corpus: dict[str, list[Pair]]) -> str:
    lines = (f"{name}\t{p.part}\t{p.source}\t{p.target}\n" for name, pairs in corpus.items() for p in pairs)
    return "".join(lines)


def test_golden(corpus: dict[str, list[Pair]]) -> None:
    assert VERSION == GOLDEN_VERSION
    assert [(pair.source, pair.target) for pair in corpus["test"][:4]] == GOLDEN
    assert hashlib.sha256(text_of(corpus).encode()).hexdigest() == GOLDEN_SHA256


def test_sizes_and_parts(corpus: dict[str, list[Pair]]) -> None:
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 20_000, "dev": 1_000, "test": 1_000}
    assert Counter(pair.part for pair in corpus["test"]) == {"seen": 800, "novel": 200}
    assert {pair.part for name in ("train", "dev") for pair in corpus[name]} == {"seen"}
    assert 35 <= sum(pair.part == "novel" for pair in corpus["test"][:200]) <= 45


def test_no_sentence_in_two_splits_or_twice(corpus: dict[str, list[Pair]]) -> None:
    for side in ("source", "target"):
        sentences = [getattr(pair, side) for pairs in corpus.values() for pair in pairs]
        assert len(sentences) == len(set(sentences))


def test_held_out_pairings_are_new_but_their_parts_are_not(corpus: dict[str, list[Pair]]) -> None:
    trained = Counter(name for pair in corpus["train"] if pair.derivation for name in pairings(pair.derivation))
    assert not set(trained) & set(HELD_OUT)
    tested = Counter(name for pair in corpus["test"] for name in pair.novelties)
    assert set(tested) == set(HELD_OUT)
    for name in HELD_OUT:
        kind, _, meeting = name.partition(" ")
        elements = meeting.split("/")
        for index, element in enumerate(elements):
            others = [n for n in trained if n.startswith(kind) and n.split(" ")[1].split("/")[index] == element]
            known = sum(trained[n] for n in others)
            assert known >= 10 or kind == "front", (name, element, known)


def test_another_seed_is_another_corpus_and_sizes_do_not_change_test() -> None:
    small = translation(2, sizes={"train": 50, "dev": 10, "test": 20})
    again = translation(2, sizes={"train": 80, "dev": 10, "test": 20})
    assert small["test"] == again["test"]
    assert small["train"] == again["train"][:50]
    other = translation(3, sizes={"train": 50, "dev": 10, "test": 20})
    assert not {p.source for p in small["train"]} & {p.source for p in other["train"]}
    with pytest.raises(PhmrunError, match="no split 'valid'"):
        translation(sizes={"valid": 3})


def test_lexicon_is_large_and_no_lexeme_is_rare(corpus: dict[str, list[Pair]]) -> None:
    assert len(lemmas("en")) >= 400
    assert len(lemmas("de")) >= 400
    seen: Counter[object] = Counter()
    for pair in corpus["train"]:
        assert pair.derivation is not None
        for node in walk(pair.derivation):
            match node:
                case NounPhrase():
                    seen.update((node.noun, *node.adjectives))
                case Clause():
                    seen.update((node.verb, *([node.conjunction] if node.conjunction else [])))
                case Predicate():
                    seen[node.adjective] += 1
                case Adverb() | Name():
                    seen[node.word] += 1
    entries = lexicon()
    rare = [
        (e.english, seen[e])
        for table in (entries.nouns, entries.verbs, entries.adjectives)
        for e in table
        if seen[e] < 15
    ]
    assert not rare


def test_lengths_and_forms(corpus: dict[str, list[Pair]]) -> None:
    for side, most in (("source", 2_500), ("target", 3_500)):
        sentences = [getattr(pair, side) for pair in corpus["train"]]
        lengths = [len(sentence.split()) for sentence in sentences]
        assert 9 <= sum(lengths) / len(lengths) <= 12
        assert max(lengths) <= 25
        assert len({word.strip(".,?") for sentence in sentences for word in sentence.split()}) < most


def test_baselines_are_weak(corpus: dict[str, list[Pair]]) -> None:
    sources, references = [p.source for p in corpus["test"]], [[p.target for p in corpus["test"]]]
    hypotheses = dictionary_baseline(((p.source, p.target) for p in corpus["train"]), sources)
    assert 5 < sacrebleu.corpus_bleu(hypotheses, references).score < 35
    assert sacrebleu.corpus_bleu(sources, references).score < 5


def test_source_determines_target() -> None:
    targets: dict[str, str] = {}
    for seed in (11, 12):
        for pair in translation(seed, sizes={"train": 4_000, "dev": 0, "test": 0})["train"]:
            assert targets.setdefault(pair.source, pair.target) == pair.target


def test_every_word_hangs_in_the_tree(corpus: dict[str, list[Pair]]) -> None:
    for pair in corpus["test"]:
        tree = pair.derivation
        assert tree is not None
        nodes = list(walk(tree))
        for linearise in (english_linearisation.clause, german_linearisation.clause):
            tokens = linearise(tree)
            heads = Counter(id(token.node) for token in tokens if token.relation == HEAD)
            assert {id(token.node) for token in tokens} <= {id(node) for node in nodes}
            for node in nodes:
                if type(node) in HEAD_ROLES:
                    assert HEAD_ROLES[type(node)] in dict(children(node))
                else:
                    assert heads[id(node)] == 1, (pair.source, pair.target, node)


def test_orthography(corpus: dict[str, list[Pair]]) -> None:
    for pair in corpus["test"] + corpus["dev"]:
        for text in (pair.source, pair.target):
            assert text[0].isupper()
            assert text[-1] in ".?"
            assert not re.search(r"  | [,.?]|,,|,[^ ]|,[.?]", text)
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiouh]", pair.source)


def test_agreement_on_the_surface(corpus: dict[str, list[Pair]]) -> None:
    # "der/die/das" directly before a noun, read off an independent list of genders.
    nominatives = {"Hund": "Der", "Frau": "Die", "Kind": "Das", "Bauer": "Der", "König": "Der", "Königin": "Die"}
    openings: Counter[str] = Counter()
    for pair in corpus["train"]:
        words = pair.target.split()
        noun = words[1].strip(",")
        if words[0] in ("Der", "Die", "Das") and noun in nominatives:
            assert words[0] == nominatives[noun], pair.target
            openings[noun] += 1
        # Weil and dass send the finite verb to the end: none of these forms stands right after the subject pronoun.
        assert not re.search(
            r"\b(weil|dass|obwohl|ob) (er|sie|es|wir|ich) (ist|hat|wird|muss|kann|will) \w+", pair.target
        )
    assert all(openings[noun] > 5 for noun in nominatives)


def test_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = translation(5, sizes={"train": 30, "dev": 5, "test": 10})
    monkeypatch.setattr("phmrun.datasets.builtin.corpus.translation", lambda seed: small)
    write_translation(tmp_path / "new", 5)
    written = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert written == ["dev.de", "dev.en", "test.de", "test.en", "test.part", "train.de", "train.en"]
    assert (tmp_path / "new" / "train.de").read_text(encoding="utf-8").splitlines() == [
        p.target for p in small["train"]
    ]
    assert (tmp_path / "new" / "test.part").read_text(encoding="utf-8").count("novel") == 2
