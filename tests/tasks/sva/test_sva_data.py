"""Sources of agreement items: built-in, the user's files, a dataset in whole or in its reduced setting."""

import os
from collections import Counter
from pathlib import Path

import pytest
from tiny_experiments import SPLITS, configured, write_agreement

from phmrun.config import ConfigError
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sentence_classification.items import Item, LeftOut
from phmrun.tasks.sva.data import build_data


def experiment(tmp_path: Path, **data):
    plain = dict.fromkeys(("train", "dev", "test")) if "name" in data else {}
    return configured("sva", tmp_path / "corpus", {"data": {**plain, **data}})


def items_of(data, split):
    return [item for item in data.files[split]() if isinstance(item, Item)]


def test_own_prefixes_become_items_with_numbers(tmp_path):
    data = build_data(experiment(tmp_path), tmp_path / "cache")
    assert {split: len(items_of(data, split)) for split in SPLITS} == SPLITS
    first = (tmp_path / "corpus" / "dev.tsv").read_text().splitlines()[0].split("\t")
    number = {"VBZ": "singular", "VBP": "plural"}[first[0]]
    assert items_of(data, "dev")[0] == Item((first[1],), number)
    data.prepare()
    assert data.vocabulary.labels == ("singular", "plural")
    assert set(data.fingerprints()) == set(SPLITS)
    before = data.fingerprints()["dev"]
    write_agreement(tmp_path / "corpus", seed=1)
    assert build_data(experiment(tmp_path), tmp_path / "cache").fingerprints()["train"] != before


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"name": "linzen", "train": "x.tsv"}, "needs name=files"),
        ({"name": "files", "train": "x.tsv", "dev": None, "test": None}, "missing: dev"),
        ({"name": "builtin", "reduced": True}, "reduced is for datasets"),
    ],
)
def test_sections_that_contradict_themselves(tmp_path, data, what):
    with pytest.raises(ConfigError, match=what):
        experiment(tmp_path, **data)


def test_the_built_in_items_have_attractors_and_a_baseline_that_fails_with_them(tmp_path):
    data = build_data(experiment(tmp_path, name="builtin"), tmp_path / "cache")
    assert data.fingerprints() == {"builtin": "1-1"}
    assert {item.part for item in items_of(data, "dev")} == {""}
    test = items_of(data, "test")
    assert Counter(item.part for item in test) == dict.fromkeys("01234", 500)
    answers = data.corpus.baselines["nearest-noun"](test)
    right = Counter(item.part for item, answer in zip(test, answers, strict=True) if item.label == answer)
    assert right["0"] > 475
    assert all(right[part] < 25 for part in "1234")


@pytest.fixture
def linzen(tmp_path, monkeypatch):
    """A data directory with a made-up ``linzen``."""
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))
    folder = tmp_path / "data" / "linzen"
    folder.mkdir(parents=True)

    def write(name, lines):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))

    write("numpred.val", [f"VBZ\tthe word{n} of it" for n in range(400)] + ["VBP\tboth keys"])
    write("numpred.test.1", ["VBP\tboth keys", "VBZ\tthe key to all"])
    write("numpred.test.3", ["VBP\tsome keys"])
    return write


def test_the_reduced_setting(tmp_path, linzen):
    config = experiment(tmp_path, name="linzen", reduced=True)
    data = build_data(config, tmp_path / "cache")
    splits = {split: items_of(data, split) for split in data.files}
    learnt = [item.sentences for split in ("train", "dev") for item in splits[split]]
    held_out = [item.sentences for item in splits["test"] if item.part == "held-out"]
    assert sorted(learnt + held_out) == sorted((f"the word{n} of it",) for n in range(400))
    for share, part in ((85, splits["train"]), (5, splits["dev"]), (10, held_out)):
        assert abs(len(part) - 4 * share) < 30
    assert Counter(item.part for item in splits["test"]) == {"held-out": len(held_out), "1": 2, "3": 1}
    assert splits["test_3"] == [Item(("some keys",), "plural", "3")]
    dropped = [item for split in ("train", "dev", "test") for item in data.files[split]() if isinstance(item, LeftOut)]
    assert dropped == [LeftOut("also in a test file", 1)]
    assert data.corpus.reading == {"format": "agreement", "setting": "reduced-from-dev-85/5/10"}
    assert "test_2" not in data.files


def test_the_complete_dataset(tmp_path, linzen):
    with pytest.raises(PhmrunError, match=r"numpred\.train") as caught:
        build_data(experiment(tmp_path, name="linzen"), tmp_path / "cache")
    assert caught.value.code is ExitCode.DATA
    linzen("numpred.train", ["VBZ\tone key"])
    linzen("numpred.test", ["VBP\tboth keys", "VBP\tsome keys", "VBZ\tno key of mixed doors and floor"])
    data = build_data(experiment(tmp_path, name="linzen"), tmp_path / "cache")
    assert [item.part for item in items_of(data, "test")] == ["1", "3", ""]
    assert len(items_of(data, "test_1")) == 2
    assert data.corpus.reading == {"format": "agreement"}


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="needs PHMRUN_DATA")
def test_the_reduced_setting_of_the_real_files(tmp_path):
    data = build_data(experiment(tmp_path, name="linzen", reduced=True), tmp_path / "cache")
    test = items_of(data, "test")
    parts = Counter(item.part for item in test)
    assert {part: count for part, count in parts.items() if part != "held-out"} == {
        "1": 52_599,
        "2": 9_380,
        "3": 2_051,
        "4": 561,
        "5": 159,
    }
    plural = Counter(item.part for item in test if item.label == "plural")
    majority = {part: round(100 * plural[part] / parts[part], 1) for part in "12345"}
    assert majority == {"1": 58.2, "2": 76.6, "3": 85.1, "4": 93.2, "5": 91.8}
    learnt = {item.sentences for split in ("train", "dev") for item in items_of(data, split)}
    assert not learnt & {item.sentences for item in test}
    left = [item for split in ("train", "dev", "test") for item in data.files[split]() if isinstance(item, LeftOut)]
    assert sum(item.items for item in left) == 33
    assert len(items_of(data, "train")) + len(items_of(data, "dev")) + parts["held-out"] == 15_772 - 33
