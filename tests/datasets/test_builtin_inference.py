"""The built-in inference pairs: labels checked in finite models, balance, leakage, and baselines that must fail."""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from finite_models import outcomes

from phmrun.datasets.builtin import inference_pairs as module
from phmrun.datasets.builtin.inference_pairs import (
    HELD_OUT,
    INFERENCE_VERSION,
    LABELS,
    InferencePair,
    inference,
    write_inference,
)
from phmrun.datasets.builtin.lexicon import lexicon
from phmrun.datasets.builtin.taxonomy import taxonomy
from phmrun.text.nli_pairs import read_pairs

# Of the default pairs; a change of any pair must come with a new INFERENCE_VERSION.
GOLDEN_VERSION = 1
GOLDEN_SHA256 = "ee5260dca9994de147979117c82b38838eb1738fb3d1a20fe93eceb9e0660064"
# Pairs of truth values of premise and hypothesis that a label forbids, and that it needs.
FORBIDDEN = {"entailment": {(True, False)}, "contradiction": {(True, True)}, "neutral": set()}
NEEDED = {"entailment": set(), "contradiction": set(), "neutral": {(True, True), (True, False)}}


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[InferencePair]]:
    return inference()


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w'-]+", text.lower()))


def naive_bayes(corpus: dict[str, list[InferencePair]], features: Callable[[InferencePair], Iterable[object]]) -> float:
    """Test accuracy of naive Bayes over binary features, trained on the training pairs."""
    counts: dict[str, Counter[object]] = defaultdict(Counter)
    for pair in corpus["train"]:
        counts[pair.label].update(features(pair))
    size = len(set().union(*counts.values()))
    totals = {label: sum(row.values()) + 0.5 * size for label, row in counts.items()}
    right = 0
    for pair in corpus["test"]:
        found = list(features(pair))
        scores = {
            label: sum(math.log((row[feature] + 0.5) / totals[label]) for feature in found)
            for label, row in counts.items()
        }
        right += max(scores, key=lambda label: scores[label]) == pair.label
    return right / len(corpus["test"])


def test_golden_sizes_and_balance(corpus: dict[str, list[InferencePair]]) -> None:
    assert INFERENCE_VERSION == GOLDEN_VERSION
    text = "".join(
        f"{name}\t{p.part}\t{p.premise}\t{p.hypothesis}\t{p.label}\n" for name in corpus for p in corpus[name]
    )
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN_SHA256
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 12_000, "dev": 1_002, "test": 1_002}
    for pairs in corpus.values():
        assert set(Counter(pair.label for pair in pairs).values()) == {len(pairs) // 3}
        labels = defaultdict(set)
        for pair in pairs:
            labels[pair.hypothesis].add(pair.label)
        assert set(map(len, labels.values())) == {3}
        # A prefix of the split is a fair sample of it.
        assert max(Counter(pair.label for pair in pairs[:300]).values()) < 150
        assert len({pair.hypothesis for pair in pairs[:300]}) == 300


def test_no_sentence_in_two_splits_and_no_premise_twice(corpus: dict[str, list[InferencePair]]) -> None:
    sentences = {name: {text for p in pairs for text in (p.premise, p.hypothesis)} for name, pairs in corpus.items()}
    assert sum(map(len, sentences.values())) == len(set().union(*sentences.values()))
    premises = [pair.premise for pairs in corpus.values() for pair in pairs]
    assert len(premises) == len(set(premises))
    assert not set(premises) & {pair.hypothesis for pairs in corpus.values() for pair in pairs}


def test_held_out_edits_are_new_but_their_parts_are_not(corpus: dict[str, list[InferencePair]]) -> None:
    trained = Counter(edit for split in ("train", "dev") for pair in corpus[split] for edit in pair.edits)
    assert not set(trained) & set(HELD_OUT)
    tested = Counter(edit for pair in corpus["test"] for edit in pair.edits)
    assert set(HELD_OUT) <= set(tested)
    for name in HELD_OUT:
        what, where = name.split("/")
        assert sum(count for edit, count in trained.items() if edit.startswith(f"{what}/")) >= 50
        assert sum(count for edit, count in trained.items() if edit.endswith(f"/{where}")) >= 50
    assert Counter(pair.part for pair in corpus["test"])["novel"] >= 150
    assert {pair.part for split in ("train", "dev") for pair in corpus[split]} == {"seen"}


def test_labels_hold_in_finite_models() -> None:
    pairs = inference(11, sizes={"train": 120, "dev": 0, "test": 60})
    unwitnessed, met = [], Counter()
    for pair in pairs["train"] + pairs["test"]:
        enough = NEEDED[pair.label] or FORBIDDEN[pair.label]
        found = outcomes(*pair.trees, 4_000 if NEEDED[pair.label] else 250, enough)
        assert not found & FORBIDDEN[pair.label], pair
        met[pair.label] += (True, pair.label == "entailment") in found or pair.label == "neutral"
        if not NEEDED[pair.label] <= found:  # some need more things at once than small worlds often have
            unwitnessed.append(pair)
    assert len(unwitnessed) <= 3, unwitnessed
    assert all(count >= 50 for count in met.values())  # the premises are true somewhere


def test_the_hypothesis_alone_says_nothing(corpus: dict[str, list[InferencePair]]) -> None:
    assert naive_bayes(corpus, lambda pair: words(pair.hypothesis)) < 0.36


def test_premise_and_overlap_alone_say_little(corpus: dict[str, list[InferencePair]]) -> None:
    assert naive_bayes(corpus, lambda pair: words(pair.premise)) < 0.50
    table: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)

    def overlap(pair: InferencePair) -> tuple[int, int]:
        premise, hypothesis = words(pair.premise), words(pair.hypothesis)
        return min(len(hypothesis - premise), 4), min(len(premise - hypothesis), 6)

    for pair in corpus["train"]:
        table[overlap(pair)][pair.label] += 1
    right = sum(table[overlap(pair)].most_common(1)[0][0] == pair.label for pair in corpus["test"])
    assert right / len(corpus["test"]) < 0.57


def test_examples_by_hand(corpus: dict[str, list[InferencePair]]) -> None:
    # Upward, less follows from more; downward, more follows from less.
    directions = Counter()
    for pair in corpus["train"]:
        premise, hypothesis = pair.premise.rstrip(".").split(), pair.hypothesis.rstrip(".").split()
        for longer, shorter, name in ((premise, hypothesis, "dropped"), (hypothesis, premise, "added")):
            if (
                len(longer) == len(shorter) + 1
                and longer[:2] == shorter[:1] + longer[1:2]
                and longer[2:] == shorter[1:]
            ):
                directions[hypothesis[0], name, pair.label] += 1
    assert directions["The", "dropped", "entailment"] > 100
    assert directions["The", "dropped", "neutral"] == 0
    assert directions["The", "added", "neutral"] > 10
    assert directions["The", "added", "entailment"] == 0
    assert directions["No", "added", "entailment"] > 30
    assert directions["No", "added", "neutral"] == 0
    assert directions["No", "dropped", "neutral"] > 10
    assert directions["No", "dropped", "entailment"] == 0


def test_taxonomy_is_an_order_and_contraries_share_a_scale() -> None:
    order = taxonomy()
    for noun, broader in order.broader_nouns.items():
        assert noun not in broader
        assert all(noun in order.narrower_nouns[other] for other in broader)
        assert all(set(order.broader_nouns.get(other, ())) <= set(broader) for other in broader)
    for adjective, contraries in order.contrary_adjectives.items():
        assert all(adjective in order.contrary_adjectives[other] for other in contraries)
        assert {other.scale for other in contraries} == {adjective.scale}, adjective.english
    by_english = Counter(noun.english for noun in lexicon().nouns)
    assert all(by_english[noun.english] <= 1 for noun in order.broader_nouns)  # no word with two senses


def test_another_seed_is_another_sample_and_sizes_do_not_change_test() -> None:
    small = inference(2, sizes={"train": 30, "dev": 6, "test": 20})
    again = inference(2, sizes={"train": 60, "dev": 6, "test": 20})
    assert len(small["test"]) == 18
    assert small["test"] == again["test"]
    assert {p.premise for p in small["train"]} < {p.premise for p in again["train"]}
    assert not {p.premise for p in small["train"]} & {
        p.premise for p in inference(3, sizes={"train": 30, "dev": 6, "test": 20})["train"]
    }


def test_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = inference(5, sizes={"train": 30, "dev": 6, "test": 12})
    monkeypatch.setattr(module, "inference", lambda seed: small)
    write_inference(tmp_path / "new", 5)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        *("dev.tsv", "test.part", "test.tsv", "train.tsv"),
    ]
    read = list(read_pairs(tmp_path / "new" / "train.tsv", "tsv"))
    assert [tuple(pair) for pair in read] == [(p.premise, p.hypothesis, p.label) for p in small["train"]]
    parts = (tmp_path / "new" / "test.part").read_text(encoding="utf-8").split()
    assert parts == [pair.part for pair in small["test"]]
    assert set(LABELS) == {pair.label for pair in read}
