"""Sources of sentence pairs: built-in, the user's files, datasets in whole or reduced; and their word vectors."""

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tiny_experiments import SPLITS, configured

from phmrun.config import ConfigError
from phmrun.families.sentence_classification.items import Item, LeftOut
from phmrun.tasks.nli.data import build_data


def experiment(tmp_path: Path, *more, **data):
    plain = dict.fromkeys(("train", "dev", "test")) if "name" in data else {}
    return configured("nli", tmp_path / "corpus", {"data": {**plain, **data}}, *more)


def items_of(data, split):
    return [item for item in data.files[split]() if isinstance(item, Item)]


def left_out(data, split):
    return [item for item in data.files[split]() if isinstance(item, LeftOut)]


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """Writes a file of a dataset into a made-up data directory."""
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))

    def write(place, lines):
        path = tmp_path / "data" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def snli(label, premise="A dog runs.", hypothesis="It moves."):
    return json.dumps({"gold_label": label, "sentence1": premise, "sentence2": hypothesis})


def test_words_are_not_changed_before_bpe_unless_the_task_says_so(tmp_path):
    assert experiment(tmp_path, vocabulary={"kind": "bpe"}).data.vocabulary.lowercase  # the default of the task
    with pytest.raises(ConfigError, match="lowercase: has no effect with data"):
        experiment(tmp_path, vocabulary={"kind": "bpe", "lowercase": True})


def test_own_pairs_become_items_with_labels(tmp_path):
    data = build_data(experiment(tmp_path), tmp_path / "cache")
    assert {split: len(items_of(data, split)) for split in SPLITS} == SPLITS
    premise, hypothesis, label = (tmp_path / "corpus" / "dev.tsv").read_text().splitlines()[0].split("\t")
    assert items_of(data, "dev")[0] == Item((premise, hypothesis), label)
    data.prepare()
    assert data.vocabulary.labels == ("entailment", "neutral", "contradiction")
    assert "vectors" not in data.fingerprints()
    assert "vectors" not in data.statistics()
    mapping = {"entailment": "yes", "neutral": "yes", "contradiction": "no"}
    mapped = build_data(experiment(tmp_path, labels=mapping), tmp_path / "cache")
    assert {item.label for item in items_of(mapped, "dev")} == {"yes", "no"}
    written = "entailment=yes,neutral=yes,contradiction=no"
    assert mapped.corpus.reading == {"format": "tsv", "mapping": written}
    assert experiment(tmp_path, labels={True: 1, False: 0}).data.labels == {"true": "1", "false": "0"}
    assert mapped.fingerprints().pop("classes") == "yes,no"  # sorted, "contradiction" is first
    mapped = build_data(experiment(tmp_path, labels=dict(sorted(mapping.items()))), tmp_path / "cache")
    assert "classes" not in {**mapped.fingerprints(), **data.fingerprints()}


def test_the_built_in_pairs(tmp_path):
    data = build_data(experiment(tmp_path, name="builtin"), tmp_path / "cache")
    assert data.fingerprints() == {"builtin": "1-1"}
    assert Counter(item.part for item in items_of(data, "test")) == {"seen": 788, "novel": 214}
    train = items_of(data, "train")
    pair = ("The young animal barks quietly and swims.", "The young animal barks quietly.")
    assert train[0] == Item(pair, "entailment")
    assert Counter(item.label for item in train) == dict.fromkeys(("entailment", "neutral", "contradiction"), 4_000)


def test_matched_and_mismatched(tmp_path, dataset):
    for split in ("train", "dev_matched", "dev_mismatched"):
        dataset(f"mnli/multinli_1.0_{split}.jsonl", [snli("neutral", hypothesis=split)])
    data = build_data(experiment(tmp_path, name="mnli"), tmp_path / "cache")
    assert set(data.files) == {"train", "dev", "dev_mismatched", "test"}
    parts = [(item.part, item.sentences[1]) for item in items_of(data, "test")]
    assert parts == [("matched", "dev_matched"), ("mismatched", "dev_mismatched")]
    assert items_of(data, "dev")[0].part == ""


@pytest.mark.parametrize(
    ("name", "files", "line", "label"),
    [
        ("scitail", "scitail_1.0_{}.tsv", "A b.\tB a.\tentails", "entailment"),
        ("qnli", "{}.tsv", "1\twho is it ?\twho ?\t17", "duplicate"),
        ("dnli", "dialogue_nli_{}.jsonl", f"[{snli('negative').replace('gold_', '')}]", "contradiction"),
    ],
)
def test_other_formats(tmp_path, dataset, name, files, line, label):
    for split in ("train", "dev", "test"):
        dataset(f"{name}/{files.format(split)}", [line])
    config = experiment(tmp_path, name=name)
    data = build_data(config, tmp_path / "cache")
    assert [item.label for item in items_of(data, "test")] == [label]
    assert config.sizes[1] == len(config.labels) == {"dnli": 3}.get(name, 2)


def test_the_reduced_setting_divides_by_premise(tmp_path, dataset):
    lines = [snli("neutral", f"premise {n // 3}", f"hypothesis {n}") for n in range(300)]
    dataset("snli/snli_1.0_dev.jsonl", [*lines, snli("-"), snli("neutral", "twice", "here")])
    dataset("snli/snli_1.0_test.jsonl", [snli("neutral", "twice", "here")])
    data = build_data(experiment(tmp_path, name="snli", reduced=True), tmp_path / "cache")
    train, dev = items_of(data, "train"), items_of(data, "dev")
    assert len(train) + len(dev) == 300
    assert 10 < len(dev) < 60
    assert not {item.sentences[0] for item in train} & {item.sentences[0] for item in dev}
    reasons = Counter()
    for split in ("train", "dev"):
        for item in left_out(data, split):
            reasons[item.reason] += item.items
    assert reasons == {"no gold label": 1, "also in a test file": 1}
    assert data.corpus.reading == {"format": "snli", "setting": "reduced-from-dev-90/10"}


def vectors_file(tmp_path, width=8, name="v.txt"):
    path = tmp_path / name
    path.write_text("".join(f"w{n} {' '.join(str(n + k / 10) for k in range(width))}\n" for n in range(30)))
    return path


def test_vectors_and_what_they_cover(tmp_path):
    path = vectors_file(tmp_path, 48)
    data = build_data(experiment(tmp_path, vectors=str(path)), tmp_path / "cache")
    data.prepare()
    words = data.vocabulary.words
    actual = data.pretrained
    covered = [word for word in words.tokens[4:] if word in {f"w{n}" for n in range(30)}]
    assert [words.tokens[place] for place in actual.places] == covered
    np.testing.assert_allclose(actual.vectors[0], [int(covered[0][1:]) + k / 10 for k in range(48)], rtol=1e-6)
    tokens = [token for item in items_of(data, "train") for text in item.sentences for token in text.split()]
    coverage = data.statistics()["vectors"]
    assert coverage["file"] == "v.txt"
    assert coverage["types"] == pytest.approx(len(covered) / (words.entries - 4))
    assert coverage["train_tokens"] == pytest.approx(sum(token in covered for token in tokens) / len(tokens))
    assert len(data.fingerprints()["vectors"]) == 64


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="needs PHMRUN_DATA")
@pytest.mark.parametrize(
    ("name", "reduced", "sizes", "dropped"),
    [
        ("scitail", False, {"train": 23_596, "dev": 1_304, "test": 2_126}, {"train": 0, "test": 0}),
        ("snli", True, {"test": 9_824}, {"train": 158, "test": 176}),
    ],
)
def test_real_datasets(tmp_path, name, reduced, sizes, dropped):
    data = build_data(experiment(tmp_path, name=name, reduced=reduced), tmp_path / "cache")
    assert {split: len(items_of(data, split)) for split in sizes} == sizes
    for split, count in dropped.items():
        assert sum(item.items for item in left_out(data, split) if item.reason == "no gold label") == count
    if reduced:
        assert len(items_of(data, "train")) + len(items_of(data, "dev")) == 9_842
    else:
        labels = Counter(item.label for item in items_of(data, "test"))
        assert round(100 * labels["neutral"] / 2_126, 1) == 60.4
