"""The built-in agreement items: labels and attractors against trees made by hand, balance, leakage, baseline."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from phmrun.datasets.builtin import agreement_items as module
from phmrun.datasets.builtin import english
from phmrun.datasets.builtin.agreement_items import (
    AGREEMENT_VERSION,
    ATTRACTORS,
    AgreementItem,
    agreement,
    agreement_items,
    nearest_noun_baseline,
    write_agreement,
)
from phmrun.datasets.builtin.lexicon import Noun, Verb, lexicon
from phmrun.datasets.builtin.sample_agreement import AgreementSampler
from phmrun.datasets.builtin.tree import Clause, Coordination, Nominal, NounPhrase, Phrase, RelativePronoun

# Of the default items; a change of any item must come with a new AGREEMENT_VERSION.
GOLDEN_VERSION = 1
GOLDEN_SHA256 = "a8e8dd8d69c3a00cbbe832da5996a3a1505a6ae34c7288d1dde37940bee6d413"


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[AgreementItem]]:
    return agreement()


def noun(english_: str) -> Noun:
    return next(entry for entry in lexicon().nouns if entry.english == english_)


def verb(base: str, frame: str) -> Verb:
    return next(entry for entry in lexicon().verbs if entry.english[0] == base and entry.frame == frame)


def the(english_: str, plural: bool = False, **parts: object) -> NounPhrase:
    return NounPhrase(noun(english_), plural, "the", **parts)  # type: ignore[arg-type]


def on(nominal: Nominal) -> Phrase:
    return Phrase("on", "auf", "dat", nominal, "place")


def falls(subject: Nominal, **features: object) -> Clause:
    settings: dict[str, object] = {"kind": "main", "tense": "present"} | features
    return Clause(verb("fall", "put0"), subject=subject, phrase=on(the("table")), **settings)  # type: ignore[arg-type]


def items_of(tree: Clause) -> list[tuple[str, str, int, bool]]:
    return [(item.prefix, item.label, item.attractors, item.homogeneous) for item in agreement_items(tree)]


def test_attractors_of_trees_made_by_hand() -> None:
    key = the("key", modifier=on(the("table", True, modifier=on(the("bridge")))))
    assert items_of(falls(key)) == [("the key on the tables on the bridge", "VBZ", 1, False)]
    keys = the("key", True, modifier=on(the("table", modifier=on(the("bridge")))))
    assert items_of(falls(keys, negated=True)) == [("the keys on the table on the bridge", "VBP", 2, True)]
    assert items_of(falls(the("teacher", possessor=None))) == [("the teacher", "VBZ", 0, True)]


def test_relative_clauses_give_items_of_their_own() -> None:
    gap = RelativePronoun(noun("key"), False)
    seen = Clause(verb("see", "t"), "embedded", "present", the("dog", True), object=gap, gap="object")
    assert items_of(falls(the("key", relative=seen))) == [
        ("the key that the dogs see", "VBZ", 1, True),
        ("the key that the dogs", "VBP", 0, True),
    ]


def test_what_gives_no_item() -> None:
    assert items_of(falls(the("key"), tense="past")) == []
    assert items_of(falls(the("key"), modal="can")) == []
    assert items_of(falls(the("key"), kind="question")) == []  # the verb comes first
    assert items_of(falls(Coordination(the("key"), the("ring")))) == []


def test_golden_sizes_and_balance(corpus: dict[str, list[AgreementItem]]) -> None:
    assert AGREEMENT_VERSION == GOLDEN_VERSION
    text = "".join(f"{n}\t{i.label}\t{i.attractors}\t{i.prefix}\n" for n, items in corpus.items() for i in items)
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN_SHA256
    assert {name: len(items) for name, items in corpus.items()} == {"train": 16_000, "dev": 1_000, "test": 2_500}
    cells = Counter((item.attractors, item.label) for item in corpus["test"])
    assert cells == {(number, label): 250 for number in ATTRACTORS for label in ("VBZ", "VBP")}
    assert all(item.homogeneous for item in corpus["test"])
    first = Counter((item.attractors, item.label) for item in corpus["test"][:100])
    assert set(first.values()) == {10}
    for name in ("train", "dev"):
        share = Counter(item.attractors for item in corpus[name])
        assert share[0] > 0.6 * len(corpus[name])
        assert share[0] > share[1] > share[2] > share[3] > 0
        assert 0.5 < sum(item.label == "VBZ" for item in corpus[name]) / len(corpus[name]) < 0.7


def test_no_prefix_twice(corpus: dict[str, list[AgreementItem]]) -> None:
    prefixes = [item.prefix for items in corpus.values() for item in items]
    assert len(prefixes) == len(set(prefixes))
    assert all(prefix == " ".join(prefix.lower().split()) and len(prefix.split()) <= 30 for prefix in prefixes)


def test_items_without_attractors_may_have_nouns_between(corpus: dict[str, list[AgreementItem]]) -> None:
    lengths = [len(item.prefix.split()) for item in corpus["test"] if item.attractors == 0]
    assert sum(length > 6 for length in lengths) > 250


def test_the_verb_of_the_sentence_agrees() -> None:
    sampler = AgreementSampler(lexicon())
    seen = 0
    for number in range(300):
        tree = sampler.natural(f"verbs/{number}")
        words = english.sentence(tree).rstrip(".?").replace(",", " ,").replace("cannot", "can not")
        words = words.replace("'s ", " 's ").replace("s' ", "s ' ").lower().split()
        for item in agreement_items(tree):
            prefix = item.prefix.split()
            assert words[: len(prefix)] == prefix
            ending = words[len(prefix)].endswith("s") and not words[len(prefix)].endswith("ss")
            assert ending == (item.label == "VBZ"), (item, words[len(prefix)])
            seen += 1
    assert seen > 200


def test_baseline_fails_with_attractors(corpus: dict[str, list[AgreementItem]]) -> None:
    assert nearest_noun_baseline(["the keys", "the dog of the king's sons", "she hopes that", "two mice"]) == [
        *("VBP", "VBP", "VBZ", "VBP"),
    ]
    for attractors in ATTRACTORS:
        items = [item for item in corpus["test"] if item.attractors == attractors]
        answers = nearest_noun_baseline(item.prefix for item in items)
        right = sum(answer == item.label for answer, item in zip(answers, items, strict=True)) / len(items)
        assert right > 0.95 if attractors == 0 else right < 0.05


def test_another_seed_is_another_sample_and_sizes_do_not_change_test() -> None:
    small = agreement(2, sizes={"train": 20, "dev": 5, "test": 20})
    again = agreement(2, sizes={"train": 30, "dev": 5, "test": 20})
    assert small["test"] == again["test"]
    assert small["train"] == again["train"][:20]
    assert agreement(3, sizes={"train": 20, "dev": 5, "test": 20})["test"] != small["test"]


def test_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = agreement(5, sizes={"train": 30, "dev": 5, "test": 12})
    monkeypatch.setattr(module, "agreement", lambda seed: small)
    write_agreement(tmp_path / "new", 5)
    files = {path.name: path.read_text(encoding="utf-8").splitlines() for path in (tmp_path / "new").iterdir()}
    assert sorted(files) == ["dev.tsv", "test.attractors", "test.tsv", "train.tsv"]
    assert files["train.tsv"][0] == f"{small['train'][0].label}\t{small['train'][0].prefix}"
    assert [int(line) for line in files["test.attractors"]] == [item.attractors for item in small["test"]]
    assert len(files["test.tsv"]) == 12
