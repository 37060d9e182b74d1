"""Run directories that nobody meant: each is listed as damaged, with why, and never stops or hangs the others."""

import json
import os

import pytest

from phmrun.ledger import Run
from phmrun.ledger.listing import list_runs

GOOD = json.dumps({"state": "done", "about": {"task": "nmt"}})
SCORE = '{"test/bleu": {"value": %s}}'
TEXTS = {
    "deep": ("metrics.json", "[" * 20_000, "deep"),
    "surrogate": ("metrics.json", '{"test/\\ud800": 1}', "Unicode|surrogates"),
    "list": ("metrics.json", "[]", "not a JSON object"),
    "words": ("status.json", '{"state": "done", "reason": "\\ud800"}', "surrogates"),
    "steps": ("status.json", '{"state": "done", "step": %s}' % ("9" * 400), "step is 9"),
    "infinite": ("status.json", '{"state": "done", "seconds": 1e999}', "seconds is inf"),
    "state": ("status.json", '{"state": "asleep"}', "asleep"),
}


def _made(runs, name, status=GOOD, metrics=SCORE % "3.5"):
    path = runs / name
    path.mkdir(parents=True)
    (path / "config.yaml").write_text("task: nmt\n")
    (path / "status.json").write_text(status)
    (path / "metrics.json").write_text(metrics)
    return path


def _listed(runs):
    _made(runs, "zz-good")
    *others, good = list_runs(runs)
    assert (good.state, good.score("test/bleu")) == ("done", 3.5)
    return others


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_text(name, tmp_path):
    file, text, reason = TEXTS[name]
    path = _made(tmp_path, "run")
    (path / file).write_text(text)
    (summary,) = _listed(tmp_path)
    assert summary.state == "damaged"
    assert file in summary.damage
    assert any(word in summary.damage for word in reason.split("|"))
    json.dumps(summary.to_json(), allow_nan=False).encode()
    assert Run(path, lenient=True).id == "run"


def test_a_renamed_run_without_status_is_listed_found_and_removed(tmp_path):
    path = _made(tmp_path, "mine")
    (path / "status.json").unlink()
    assert list_runs(tmp_path) == []  # any folder may have a config.yaml
    (path / "manifest.json").write_text("{}")
    (summary,) = _listed(tmp_path)
    assert summary.state == "damaged"
    Run.find(tmp_path, "mine").access.remove()
    assert not path.exists()


@pytest.mark.parametrize("file", ["status.json", "metrics.json", "lock", "history.jsonl", "parameters.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory", "loop"])
def test_what_is_no_file_is_not_waited_for(kind, file, tmp_path):
    path = _made(tmp_path, "run", status='{"state": "running"}') / file
    path.unlink(missing_ok=True)
    make = {
        "pipe": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "directory": os.mkdir,
        "loop": lambda path: path.symlink_to(file),
    }
    make[kind](path)
    (summary,) = _listed(tmp_path)
    assert summary.state == ("damaged" if file in ("status.json", "metrics.json") else "interrupted")
    output = Run(path.parent, lenient=True)
    assert bool(output.faults) == (file != "lock")
