"""Files of a sequence-to-sequence experiment, and their part in its run id."""

import gzip
import os
from pathlib import Path

import pytest
from tiny_experiments import write_corpus

from phmrun.config import Source, resolve, task_defaults
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sequence_to_sequence.data import build_parallel_data, corpus, own_files
from phmrun.layers import options_of
from phmrun.tasks.nmt.config import TranslationExperiment


def config_of(**data):
    values = {"data": {"source": "aa", "target": "bb", **data}}
    return resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", values)], options_of).config


def no_builtin(data, cache):
    pytest.fail("the built-in corpus was asked for")


@pytest.fixture
def directory(tmp_path):
    return write_corpus(tmp_path / "corpus")


def test_a_prefix_names_six_files(directory):
    files = own_files(config_of(prefix=f"{directory}/").data)
    assert files == {
        split: (directory / f"{split}.aa", directory / f"{split}.bb") for split in ("train", "dev", "test")
    }
    back = own_files(config_of(prefix=f"{directory}/", source="bb", target="aa").data)
    assert back["train"] == (directory / "train.bb", directory / "train.aa")


def test_the_prefix_s_validation_may_be_val_and_a_named_file_takes_a_place(directory):
    for side in ("aa", "bb"):
        (directory / f"dev.{side}").rename(directory / f"val.{side}")
    assert own_files(config_of(prefix=f"{directory}/").data)["dev"] == (directory / "val.aa", directory / "val.bb")
    (directory / "test.bb").rename(directory / "other.txt")
    files = own_files(
        config_of(
            prefix=f"{directory}/", test_target=str(directory / "other.txt"), test_source=str(directory / "test.aa")
        ).data
    )
    assert files["test"] == (directory / "test.aa", directory / "other.txt")


def test_compressed_files_are_found(directory):
    for path in list(directory.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    config = config_of(prefix=f"{directory}/", vocabulary={"kind": "word", "size": 64})
    assert own_files(config.data)["test"][1] == directory / "test.bb.gz"
    assert (
        build_parallel_data(config, directory / "cache", no_builtin).statistics()["splits"]["train"]["sentences"] == 150
    )


def named(directory, *splits):
    return {
        f"{split}_{side}": directory / f"{split}.{language}"
        for split in splits
        for side, language in (("source", "aa"), ("target", "bb"))
    }


@pytest.mark.parametrize(
    ("missing", "prefix", "where"),
    [
        ("train.bb", True, "data.prefix"),
        ("dev.aa", True, "data.prefix"),
        ("train.aa", False, "data.train_source"),
        ("test.bb", False, "data.test_target"),
    ],
)
def test_a_missing_file_is_named(directory, missing, prefix, where):
    (directory / missing).unlink()
    places = {"prefix": f"{directory}/"} if prefix else named(directory, "train", "dev", "test")
    with pytest.raises(PhmrunError, match="does not exist") as caught:
        own_files(config_of(**places).data)
    assert str(directory / missing) in str(caught.value)
    assert caught.value.where == where
    assert caught.value.code is ExitCode.DATA


def test_settings_reach_the_data(directory, tmp_path):
    config = config_of(prefix=f"{directory}/", max_length=5, vocabulary={"kind": "word", "size": 64, "joint": True})
    config = config.model_copy(
        update={
            "seed": 9,
            "batch": config.batch.model_copy(update={"unit": "sentences", "size": 4}),
            "training": config.training.model_copy(update={"accumulate": 3}),
            "hardware": config.hardware.model_copy(update={"workers": 2}),
        }
    )
    data = build_parallel_data(config, tmp_path, no_builtin)
    batch = next(iter(data.train_dataloader()))
    assert (len(batch.source), data.steps_in_epochs(1, 1)) == (4, -(-len(data.plan) // 3))
    assert data.vocabulary.sizes == (64, 64)
    kept = sum(len(line.split()) <= 5 for line in (directory / "train.aa").read_text().splitlines())
    assert data.statistics()["splits"]["train"]["sentences"] == kept < 150
    assert set(data.baselines) == {"copy"}
    assert data.baselines["copy"](["as it is"]) == ["as it is"]


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="PHMRUN_DATA does not say where real corpora are")
def test_a_real_dataset_where_it_is_at_hand(tmp_path):
    if not (Path(os.environ["PHMRUN_DATA"]) / "multi30k").is_dir():
        pytest.skip("multi30k is not there")
    actual = corpus(config_of(name="multi30k", source="en", target="de").data, tmp_path, no_builtin)
    assert {"train", "dev", "test"} <= actual.files.keys()
    assert all(path.is_file() for pair in actual.files.values() for path in pair)
    assert actual.fingerprints
