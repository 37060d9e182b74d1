"""The built-in style corpus: older forms and sentences written out by hand, leakage, reproducibility and baselines."""

import hashlib
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import sacrebleu

from phmrun.datasets.builtin import dictionary_baseline, style_pairs
from phmrun.datasets.builtin import morphology_archaic as morphology
from phmrun.datasets.builtin.archaic_lexicon import archaic_lexicon
from phmrun.datasets.builtin.lexicon import rows
from phmrun.datasets.builtin.pairings import HELD_OUT, pairings
from phmrun.datasets.builtin.style_pairs import STYLE_VERSION, StylePair, style, write_style

# Of the default corpus; a change of any sentence must come with a new STYLE_VERSION.
GOLDEN_VERSION = 1
GOLDEN_SHA256 = "a0dc7d10058842c6547f7f654f07f5b23862fe44ad79e5df65bf48c8ee39d241"
SENTENCES = {
    "Why does a waiter cross the two deep rivers in the morning ?": (
        "Wherefore crosseth a tapster the two deep floods at morn ?"
    ),
    "You put hats behind the bag angrily now .": "Thou layest bonnets at the back of the pouch wrathfully even now .",
    "Lena does not explain that this saw is expensive .": "Lena expoundeth not that this saw is dear .",
    "We do not complain about you .": "We make not complaint of thee .",
    "Mrs Weber , do you want to pour water into the glass ?": (
        "Mistress Weber , would you pour water into the goblet ?"
    ),
    "Maria hates the tired man because you follow trains .": (
        "Maria abhorreth the weary man for that thou trains followest ."
    ),
    "The mirrors are broken by the man in the summer .": "The mirrors are broken of the man in summertide .",
    "When you could cut your cherries gladly , they were fresh .": (
        "When thou couldst cut thy cherries right gladly , they were fresh ."
    ),
    "At noon this queen does not work .": "At noontide toileth this queen not .",
    "Mrs Schmidt had to stand in the restaurant in January .": (
        "Mistress Schmidt must needs stand in the tavern in January ."
    ),
    "Many old students listen to the weak witches patiently despite the dangerous fog .": (
        "Many an aged scholar giveth ear to the feeble beldams patiently in despite of the perilous fog ."
    ),
    "Which scarf did those good princesses wash secretly ?": "Which scarf laved yonder good princesses privily ?",
}


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[StylePair]]:
    return style()


@pytest.mark.parametrize(
    ("base", "second", "third"),
    [
        *(("be", "art", "is"), ("have", "hast", "hath"), ("do", "dost", "doth"), ("see", "seest", "seeth")),
        *(("love", "lovest", "loveth"), ("cry", "criest", "crieth"), ("run", "runnest", "runneth")),
        *(("lie", "liest", "lieth"), ("say", "sayest", "sayeth"), ("go", "goest", "goeth")),
    ],
)
def test_present(base: str, second: str, third: str) -> None:
    assert morphology.present(base, "thou") == second
    assert morphology.present(base, "3s") == third
    assert morphology.present(base, "3p") == ("are" if base == "be" else base)


def test_other_forms() -> None:
    assert morphology.present("abhor", "3s", "abhorred") == "abhorreth"
    assert [morphology.past(form, "thou") for form in ("loved", "saw", "made")] == ["lovedst", "sawest", "madest"]
    assert [morphology.be_past(person) for person in ("1s", "thou", "3s", "3p")] == ["was", "wert", "was", "were"]
    assert [morphology.possessive("thy", word) for word in ("hand", "eye", "useful")] == ["thy", "thine", "thy"]


def test_every_entry_of_the_table_is_used() -> None:
    older = archaic_lexicon()
    kinds = Counter(fields[0] for fields in rows("archaic.txt"))
    assert kinds["noun"] == len(older.nouns)
    assert kinds["verb"] == len(older.verbs)
    assert kinds["adjective"] == sum(map(len, older.adjectives.values()))
    assert kinds["word"] == len(older.words)
    assert kinds["phrase"] == len(older.prepositions)


@pytest.mark.parametrize("modern", SENTENCES, ids=lambda text: text[:20])
def test_sentences_written_by_hand(corpus: dict[str, list[StylePair]], modern: str) -> None:
    found = [pair.original for pair in corpus["train"] if pair.modern == modern]
    assert found == [SENTENCES[modern]]


def test_golden_sizes_parts_and_no_sentence_twice(corpus: dict[str, list[StylePair]]) -> None:
    assert STYLE_VERSION == GOLDEN_VERSION
    text = "".join(f"{name}\t{p.part}\t{p.modern}\t{p.original}\n" for name, pairs in corpus.items() for p in pairs)
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN_SHA256
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 8_000, "dev": 500, "test": 500}
    assert Counter(pair.part for pair in corpus["test"]) == {"seen": 400, "novel": 100}
    for side in ("modern", "original"):
        sentences = [getattr(pair, side) for pairs in corpus.values() for pair in pairs]
        assert len(sentences) == len(set(sentences))
    trained = {name for split in ("train", "dev") for pair in corpus[split] for name in pairings(pair.derivation)}
    assert not trained & set(HELD_OUT)


def test_older_forms_on_the_surface(corpus: dict[str, list[StylePair]]) -> None:
    seen = Counter()
    for pair in corpus["train"]:
        words = pair.original.split()
        seen.update(words)
        assert not set(words) & {"does", "did", "has", "don't", "Mr", "Mrs"}
        assert pair.original[0].isupper() or pair.original[0] == "'"
        assert words[-1] == pair.modern[-1]
        assert not re.search(r"  | , ,|, [.?]", pair.original)
        for one, two in pairwise(words):
            if one.lower() == "thou":  # adverbs and objects may come between
                assert not two.endswith("eth")
            if one == "thine":
                assert two[0] in "aeiou"
    for word, least in (("thou", 500), ("thee", 200), ("thy", 150), ("ye", 50), ("hath", 150), ("not", 1_000)):
        assert seen[word] >= least, word


def test_modern_determines_original() -> None:
    originals: dict[str, str] = {}
    for seed in (11, 12):
        for pair in style(seed, sizes={"train": 4_000, "dev": 0, "test": 0})["train"]:
            assert originals.setdefault(pair.modern, pair.original) == pair.original


def test_one_word_has_several_older_ones_by_its_sense(corpus: dict[str, list[StylePair]]) -> None:
    found: dict[str, Counter[str]] = {"put": Counter(), "letter": Counter(), "old": Counter(), "before": Counter()}
    senses = {
        "put": ("laid", "set", "donned"),
        "letter": ("epistle", "character"),
        "old": ("aged", "ancient"),
        "before": ("ere",),
    }
    for pair in corpus["train"]:
        for word, older in senses.items():
            if word in pair.modern.split():
                found[word].update(set(older) & set(pair.original.split()))
    assert all(found[word][form] >= 5 for word, older in senses.items() for form in older), found


def test_baselines_are_weak(corpus: dict[str, list[StylePair]]) -> None:
    modern, references = [p.modern for p in corpus["test"]], [[p.original for p in corpus["test"]]]
    copied = sacrebleu.corpus_bleu(modern, references, force=True).score
    train = [(pair.modern, pair.original) for pair in corpus["train"]]
    replaced = sacrebleu.corpus_bleu(dictionary_baseline(train, modern, tokenised=True), references, force=True).score
    assert 15 < copied < 30
    assert copied + 20 < replaced < 70


def test_another_seed_is_another_corpus_and_sizes_do_not_change_test() -> None:
    small = style(2, sizes={"train": 50, "dev": 10, "test": 20})
    again = style(2, sizes={"train": 80, "dev": 10, "test": 20})
    assert small["test"] == again["test"]
    assert small["train"] == again["train"][:50]
    other = style(3, sizes={"train": 50, "dev": 10, "test": 20})
    assert not {p.modern for p in small["train"]} & {p.modern for p in other["train"]}


def test_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = style(5, sizes={"train": 30, "dev": 5, "test": 10})
    monkeypatch.setattr(style_pairs, "style", lambda seed: small)
    write_style(tmp_path / "new", 5)
    files = {path.name: path.read_text(encoding="utf-8").splitlines() for path in (tmp_path / "new").iterdir()}
    assert sorted(files) == [
        *("dev.modern", "dev.original", "test.modern", "test.original", "test.part", "train.modern"),
        "train.original",
    ]
    assert files["train.original"] == [pair.original for pair in small["train"]]
    assert files["test.part"].count("novel") == 2
