"""Content of an environment record, and facts that it leaves out."""

import subprocess

import pytest

from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.environment import code, command, differences
from phmrun.ledger.segment import Segment


def test_an_entry_for_each_process(tmp_path):
    run = Run.create(tmp_path / "runs", "sva-x", "task: sva\n")
    first = Segment(run, {"threads": 1, "python": "3.11"})
    assert first.resumed(0) == []
    first.progress(5)
    del first  # killed
    second = Segment(run, {"threads": 2, "python": "3.11"})
    assert second.resumed(4) == ["threads: 1, then 2"]
    second.end("done")
    item, two = run.environment()
    assert (item["state"], item["ended"], two["state"], two["first_step"]) == ("running", None, "done", 4)
    (run.path / "environment.json").write_text('{"segments": 3}')
    with pytest.raises(PhmrunError):
        run.environment()


def test_the_code_s_commit_and_its_changes(tmp_path, monkeypatch):
    root = tmp_path / "checkout"
    (root / "phmrun").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "phmrun" / "__init__.py").write_text("one = 1\n")
    monkeypatch.setattr("phmrun.ledger.environment.__file__", str(root / "phmrun" / "ledger" / "environment.py"))
    assert code() == {}
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    clean = code()
    assert clean.keys() == {"commit"}
    (root / "phmrun" / "__init__.py").write_text("one = 2\n")
    (difference,) = differences({"code": clean}, {"code": code()})
    assert difference.startswith("code.diff_sha256: None")


def test_secrets_of_a_command_are_masked(monkeypatch):
    shown = "--hf-token *** --lr 1 a.api_key=*** --secret --tokens 5 token https://***@host/a"
    monkeypatch.setattr("sys.argv", ["/bin/run.py", *shown.replace("***", "s3cret=x:y").split()])
    assert command() == ["run.py", *shown.split()]
