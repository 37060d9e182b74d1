"""Where data are, and what is said when they are not."""

import json
from pathlib import Path

import pytest

from phmrun.datasets import CATALOGUE, Check, Dataset, File, checksums, data_dir, inspect, is_here, locate
from phmrun.datasets import locations as locations_module
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path))
    return tmp_path


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


def test_paths_by_split_and_role(data):
    fill(CATALOGUE.get("multi30k"), data)
    found = locate("multi30k")
    assert found["train"] == {"en": data / "multi30k/train.en.gz", "de": data / "multi30k/train.de.gz"}
    assert found["test"]["de"].name == "test_2016_flickr.de.gz"
    assert set(found) == {"train", "dev", "test", "test_2017_flickr"}


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


def test_an_unknown_dataset_is_a_usage_error():
    with pytest.raises(PhmrunError) as caught:
        locate("multi20k")
    assert caught.value.code is ExitCode.USAGE
    assert "multi30k" in str(caught.value)


def test_a_generated_dataset_is_always_here():
    assert locate("builtin") == {}
    assert is_here(CATALOGUE.get("builtin"))


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
