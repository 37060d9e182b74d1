"""Sources of trees, training subsets and batches."""

import os
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_treebank import write_trees

from phmrun.config import Source, resolve, task_defaults
from phmrun.layers import options_of
from phmrun.tasks.parse.config import ParsingExperiment
from phmrun.tasks.parse.data import build_data, divided
from phmrun.tasks.parse.vocabulary import NO_LABEL
from phmrun.text import conllu


def config_of(**data):
    values = {"data": data, "batch": {"size": 60}}
    return resolve(ParsingExperiment, [task_defaults("parse"), Source("test", values)], options_of).config


@pytest.fixture
def trees(tmp_path) -> Path:
    return write_trees(tmp_path / "trees")


def own(folder: Path, **data):
    files = {"train": str(folder / "train.conllu"), "dev": str(folder / "dev.conllu"), "test": folder / "test.conllu"}
    return config_of(**{**files, **data})


def test_own_trees_become_splits_and_a_vocabulary(trees, tmp_path):
    data = build_data(own(trees), tmp_path)
    data.prepare()
    assert set(data.files) == {"train", "dev", "test"}
    assert set(data.fingerprints()) == {"train.1", "dev.1", "test.1"}
    statistics = data.statistics()
    assert {split: facts["sentences"] for split, facts in statistics["splits"].items()} == {"train": 120, "dev": 24}
    assert statistics["vocabulary"] == {"words": 32, "tags": 8, "characters": 16, "labels": 4}
    assert [item.text for item in data.sentences("test")] == [item.text for item in conllu.load(trees / "test.conllu")]


@given(count=st.integers(4, 300), hold_out=st.sampled_from([0, 0.05, 0.1, 0.5]), quarters=st.integers(1, 4))
def test_shares_are_nested_and_what_is_held_out_stays_apart(count, hold_out, quarters):
    learnt, held = divided(count, hold_out, Fraction(quarters, 4))
    assert len(held) == (max(1, round(count * hold_out)) if hold_out else 0)
    assert len(learnt) == max(1, round((count - len(held)) * Fraction(quarters, 4)))
    assert not set(learnt) & set(held)
    assert list(learnt) == sorted(learnt)
    more, same = divided(count, hold_out, Fraction(1))
    assert same == held
    assert set(learnt) <= set(more)
    assert sorted([*more, *held]) == list(range(count))


def test_the_builtin_treebank(tmp_path):
    data = build_data(config_of(), tmp_path)
    assert data.fingerprints() == {"builtin": "1-1"}
    assert data.treebank.parts["test"].read_text().split().count("novel") == 100
    assert [len(data.sentences(split)) for split in ("train", "dev", "test")] == [4_000, 500, 500]
    joined = build_data(config_of(train="train,dev", hold_out=0.2), tmp_path)
    assert joined.fingerprints() == {"builtin": "1-1", "train": "train,dev"}
    assert len(joined.sentences("train")) + len(joined.sentences("dev")) == 4_500


def test_an_epoch_holds_every_word_once(trees, tmp_path):
    data = build_data(own(trees), tmp_path)
    loader = iter(data.train_dataloader())
    units = 0
    for _ in range(data.steps_in_epochs(1, 1)):
        batch = next(loader)
        words, *_, lengths = batch.inputs
        assert words.dtype is torch.int64
        assert batch.units == batch.window_units == len(batch.positions) == int(lengths.sum()) - len(lengths)
        assert len(lengths) == 1 or words.numel() <= 60
        assert (batch.labels.flatten()[batch.positions] != NO_LABEL).all()
        units += batch.units
    assert units == sum(map(len, data.sentences("train")))
    validated = sum(batch.units for batch in data.validation_batches())
    assert validated == sum(map(len, data.sentences("dev")))


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="PHMRUN_DATA does not say where real corpora are")
def test_a_real_treebank_where_it_is_at_hand(tmp_path):
    folder = Path(os.environ["PHMRUN_DATA"]) / "ud" / "UD_French-ParTUT"
    if not folder.is_dir():
        pytest.skip("UD_French-ParTUT is not there")
    files = [str(folder / f"fr_partut-ud-{split}.conllu") for split in ("train", "dev", "test")]
    data = build_data(config_of(train=files[:2], test=files[2], hold_out=0.1), tmp_path)
    data.prepare()
    assert {split: facts["sentences"] for split, facts in data.statistics()["splits"].items()} == {
        "train": 558,
        "dev": 62,
    }
    universal = config_of(train=files[:2], hold_out=0.1, vocabulary={"subtypes": False})
    assert build_data(universal, tmp_path).vocabulary.sizes[-1] < data.vocabulary.sizes[-1]
