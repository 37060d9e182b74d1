"""Content of an environment record, and facts that it leaves out."""

import subprocess

import pytest

from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger import environment as module
from phmrun.ledger.environment import code, differences
from phmrun.ledger.segment import Segment


def _run(tmp_path):
    return Run.create(tmp_path / "runs", "sva-x", "task: sva\n")


def test_an_entry_for_each_process(tmp_path):
    run = _run(tmp_path)
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
    monkeypatch.setattr(module, "__file__", str(root / "phmrun" / "ledger" / "environment.py"))
    assert code() == {}
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    clean = code()
    assert clean.keys() == {"commit"}
    (root / "phmrun" / "__init__.py").write_text("one = 2\n")
    changed = code()
    assert changed["commit"] == clean["commit"]
    assert any(line.startswith("code.diff_sha256: None") for line in differences({"code": clean}, {"code": changed}))
