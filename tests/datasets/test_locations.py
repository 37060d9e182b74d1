"""Location of data, and the errors if they are missing."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from phmrun.datasets import (
    CATALOGUE,
    Check,
    Dataset,
    File,
    checksums,
    data_dir,
    inspect,
    is_here,
    locate,
    splits_here,
)
from phmrun.datasets import locations as locations_module
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of

pytestmark = pytest.mark.usefixtures("data")


def fill(dataset: Dataset, root: Path) -> None:
    for file in dataset.files:
        path = root / dataset.name / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.path)


def test_the_data_directory_follows_the_variable_or_the_platform(data, monkeypatch):
    assert data_dir() == data
    monkeypatch.setenv("PHMRUN_DATA", "~/corpora")
    assert data_dir() == Path.home() / "corpora"
    monkeypatch.setenv("PHMRUN_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(data / "cache"))
    assert data_dir().parts[-2:] == ("phmrun", "data")


def test_what_is_missing_is_named_with_the_next_command(data):
    fill(CATALOGUE.get("multi30k"), data)
    (data / "multi30k/val.de.gz").unlink()
    assert not is_here(CATALOGUE.get("multi30k"))
    with pytest.raises(PhmrunError) as caught:
        locate("multi30k")
    message = str(caught.value)
    assert caught.value.code is ExitCode.DATA
    assert str(data / "multi30k/val.de.gz") in message
    assert "train.de.gz" not in message
    assert "phmrun data fetch multi30k" in message
    assert "task1/raw/val.de.gz" in message
    assert "PHMRUN_DATA" in message


def put(data, *paths):
    for path in paths:
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_text("x")


def test_splits_that_are_here_can_be_used_without_the_others(data):
    put(data, "snli/snli_1.0_dev.jsonl.gz", "snli/snli_1.0_test.jsonl")
    assert splits_here(CATALOGUE.get("snli")) == ("dev", "test")
    actual = locate("snli", ["test", "dev"])
    assert list(actual) == ["test", "dev"]
    assert actual["dev"]["pairs"].name == "snli_1.0_dev.jsonl.gz"
    with pytest.raises(PhmrunError) as caught:
        locate("snli", ["train", "dev"])
    message = str(caught.value)
    assert caught.value.code is ExitCode.DATA
    assert "incomplete (complete splits: dev, test)" in message
    assert f"{data / 'snli/snli_1.0_train.jsonl'} (train)" in message
    assert "phmrun data fetch snli --split train" in message
    assert f"put these files into {data / 'snli'}, then phmrun data fetch snli" in message
    assert ".archives/snli_1.0.zip (94,550,081 bytes) from https://nlp.stanford.edu" in message


def test_content_is_compared_where_a_file_is_compressed(data):
    (data / "some").mkdir()
    digest = hashlib.sha256(b"text").hexdigest()
    dataset = Dataset("some", (), "s", "l", "lines", splits={"a": (File("t", ("https://one.org",), digest),)})
    path = data / "some/t.gz"
    for content, state in ((gzip.compress(b"text"), Check.VERIFIED), (gzip.compress(b"other"), Check.WRONG)):
        path.write_bytes(content)
        assert inspect(dataset)[0].check is state
    path.write_bytes(gzip.compress(b"text" * 99)[:-9])
    with pytest.raises(PhmrunError, match="damaged"):
        inspect(dataset)


def test_files_are_checked_against_the_catalogue_or_the_record(data):
    folder = data / "some"
    folder.mkdir()
    for name in ("good", "bad", "new", "known", "changed"):
        (folder / name).write_text(name)
    sums = {"good": sha256_of(folder / "good"), "bad": "0" * 64, "absent": "1" * 64}
    names = ["good", "bad", "absent", "new", "known", "changed"]
    files = tuple(File(name, ("https://one.org",), sums.get(name), role=name) for name in names)
    dataset = Dataset("some", ("nmt",), "s", "l", "parallel", splits={"train": files})
    record = {"known": sha256_of(folder / "known"), "changed": "2" * 64}
    (folder / locations_module.RECORD).write_text(json.dumps(record))
    states = {presence.role: presence.check for presence in inspect(dataset)}
    assert states == {
        "good": Check.VERIFIED,
        "bad": Check.WRONG,
        "absent": Check.MISSING,
        "new": Check.RECORDED,
        "known": Check.RECORDED,
        "changed": Check.WRONG,
    }


def test_checksums_name_an_experiment_without_the_files():
    sums = checksums("multi30k")
    assert len(sums) == 8
    assert sums["train.en.gz"] == "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"
    assert checksums("builtin") == {}
