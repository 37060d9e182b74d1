"""``phmrun new``: a plug-in file that works under its name."""

import shlex

import pytest
from forks import completed
from tiny_experiments import write_agreement


@pytest.mark.parametrize("kind", ["structure", "network", "metric", "task"])
def test_a_new_part_works_by_the_command_that_is_printed(phmrun, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    written = phmrun("new", kind, f"second-{kind}")
    assert (written.code, written.out.split()) == (0, [f"second_{kind}.py"])
    assert "my" not in (tmp_path / f"second_{kind}.py").read_text().replace("-", "_").split("_")
    command = shlex.split(written.err.splitlines()[-1].partition("phmrun ")[2])
    if command[0] == "train":
        data = write_agreement(tmp_path / "data")
        command += [word for split in ("train", "dev", "test") for word in (f"--{split}", str(data / f"{split}.tsv"))]
    tried = completed(command, tmp_path)  # in another process, since a plug-in stays registered
    assert tried.returncode == 0, tried.stderr
    again = phmrun("new", kind, f"second-{kind}")
    assert (again.code, "the file exists" in again.err) == (2, True)


@pytest.mark.parametrize("name", ["class", "torch", "Tiled", "phm", "1st", "json"])
def test_a_name_that_cannot_be_used_is_refused(phmrun, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert phmrun("new", "structure", name).code == 2
    assert list(tmp_path.iterdir()) == []
