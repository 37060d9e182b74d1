import pytest

from phmrun.config import config_source, task_defaults
from phmrun.errors import PhmrunError


@pytest.mark.parametrize("name", ["configs/tasks/nmt.yaml", "tasks/nmt.yaml"])
def test_packaged_files_are_found_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_source(name).values == task_defaults("nmt").values


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
