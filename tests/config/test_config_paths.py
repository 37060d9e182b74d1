"""Paths of the user's files, made absolute."""

import pytest

from phmrun.config import with_absolute_paths
from phmrun.tasks.nmt.config import TranslationExperiment


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("here/", "cwd/here/"), ("here/train.", "cwd/here/train."), ("both/", "cwd/both/"), ("nowhere/", "nowhere/"),
        ("only/", "data/only/"), ("only/tr", "data/only/tr"), ("only/dev", "only/dev"), ("{root}/x/", "{root}/x/"),
    ],
)  # fmt: skip
def test_paths_lead_from_this_folder_or_else_from_the_data_directory(tmp_path, monkeypatch, prefix, found):
    for name in ("cwd/here", "cwd/both", "data/both", "data/only"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "train.de").touch()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))
    data = {"name": "files", "source": "en", "target": "de"}
    arguments = TranslationExperiment(task="nmt", data={**data, "prefix": prefix.format(root=tmp_path)})
    absolute = str(tmp_path) if found.startswith(("cwd", "data")) else ""
    expected = f"{absolute}/{found}" if absolute else found.format(root=tmp_path)
    assert with_absolute_paths(arguments).data.prefix == expected
    if found == "data/only/":
        files = ("train_source", "train_target", "dev_source", "dev_target")
        first = TranslationExperiment(task="nmt", data={**data, **dict.fromkeys(files, "only/train.de")})
        assert with_absolute_paths(first).data.train_source == tmp_path / "data/only/train.de"
