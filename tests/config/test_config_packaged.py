import pytest

from phmrun.config import config_source, task_defaults
from phmrun.errors import PhmrunError


@pytest.mark.parametrize("name", ["configs/tasks/nmt.yaml", "tasks/nmt.yaml"])
def test_packaged_files_are_found_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_source(name).values == task_defaults("nmt").values


def test_a_missing_file_names_the_folders():
    with pytest.raises(PhmrunError) as caught:
        config_source("configs/nmt/demoo.yaml")
    assert "configs/nmt/…" in caught.value.valid
    assert len(caught.value.valid) < 20
    assert "configs/nmt/demo.yaml" in caught.value.hint
