import pytest

from phmrun.config import config_source, load_yaml, packaged_names, task_defaults
from phmrun.errors import PhmrunError


def test_the_task_defaults_are_found():
    assert "configs/tasks/nmt.yaml" in packaged_names()
    source = task_defaults("nmt")
    assert source.label == "configs/tasks/nmt.yaml"
    assert source.at("batch.size").startswith("configs/tasks/nmt.yaml:")


def test_a_task_without_a_file_has_no_defaults():
    assert task_defaults("no-such-task").values == {}


@pytest.mark.parametrize("name", ["configs/tasks/nmt.yaml", "tasks/nmt.yaml"])
def test_packaged_files_are_found_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_source(name).values == task_defaults("nmt").values


def test_a_file_of_the_user_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs/tasks").mkdir(parents=True)
    (tmp_path / "configs/tasks/nmt.yaml").write_text("seed: 77\n")
    assert config_source("configs/tasks/nmt.yaml").values == {"seed": 77}


def test_unknown_files_bring_the_nearest_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("seed: 1\n")
    with pytest.raises(PhmrunError) as caught:
        config_source("configs/task/nmt.yml")
    assert "configs/tasks/nmt.yaml" in (caught.value.hint or "")
    with pytest.raises(PhmrunError, match="no such file") as caught:
        config_source("mina.yaml")
    assert "mine.yaml" in (caught.value.hint or "")
    assert caught.value.code == 2


def test_a_directory_is_no_configuration(tmp_path):
    with pytest.raises(PhmrunError, match="not a regular file"):
        config_source(str(tmp_path))
    with pytest.raises(PhmrunError, match="not a regular file"):
        load_yaml(tmp_path)


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("mine.yaml", "configs/nmt/…"),
        ("configs/nmt/mine.yaml", "configs/nmt/demo.yaml"),
        ("nmt/x", "configs/nmt/demo.yaml"),
    ],
)
def test_a_missing_file_names_those_beside_it_or_the_folders(name, valid):
    with pytest.raises(PhmrunError) as caught:
        config_source(name)
    assert valid in caught.value.valid
    assert len(caught.value.valid) < 20
