"""``phmrun data``: what it prints, for people and for programs, and how it ends."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from phmrun.cli.data import app
from phmrun.datasets import CATALOGUE
from phmrun.errors import ExitCode, PhmrunError


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path))
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def fill(data):
    for file in CATALOGUE.get("multi30k").files:
        path = data / "multi30k" / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_text("not the real content")


def test_list_marks_what_is_here(data):
    rows = {line.split()[1]: line.split()[0] for line in run("list").splitlines() if "nmt" in line}
    assert rows == {"builtin": "✓", "multi30k": "–"}
    fill(data)
    rows = {line.split()[1]: line.split()[0] for line in run("list").splitlines() if "nmt" in line}
    assert rows == {"builtin": "✓", "multi30k": "✓"}


def test_list_as_json():
    entries = {entry["name"]: entry for entry in json.loads(run("list", "--json"))}
    assert list(entries) == CATALOGUE.names()
    assert entries["multi30k"]["here"] is False
    assert entries["multi30k"]["bytes"] == sum(file.bytes for file in CATALOGUE.get("multi30k").files)
    assert entries["builtin"]["generated"] is True


def test_info_tells_everything(data):
    printed = run("info", "multi30k")
    for part in ("non-commercial", "@inproceedings{elliott", "github.com/multi30k", "train.en.gz", "missing"):
        assert part in printed
    fill(data)
    assert "wrong checksum" in run("info", "multi30k")


def test_info_as_json():
    entry = json.loads(run("info", "multi30k", "--json"))
    assert len(entry["files"]) == 8
    assert {file["state"] for file in entry["files"]} == {"missing"}
    assert entry["files"][0]["urls"][0].startswith("https://")


def test_builtin_needs_no_fetching():
    assert "nothing to fetch" in run("info", "builtin")
    assert "nothing to fetch" in run("fetch", "builtin")
    assert json.loads(run("fetch", "builtin", "--json"))["fetched"] == []


def test_path(data):
    assert run("path").strip() == str(data)
    assert run("path", "multi30k").strip() == str(data / "multi30k")
    assert json.loads(run("path", "--json")) == {"path": str(data), "exists": True}


@pytest.mark.parametrize("verb", ["info", "fetch", "path"])
def test_an_unknown_name_is_a_usage_error(verb):
    with pytest.raises(PhmrunError) as caught:
        run(verb, "multi20k")
    assert caught.value.code is ExitCode.USAGE
    assert "multi30k" in str(caught.value)


def test_fetch_refuses_what_is_wrong(data):
    fill(data)
    with pytest.raises(PhmrunError, match="checksum") as caught:
        run("fetch", "multi30k")
    assert caught.value.code is ExitCode.DATA


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from phmrun.cli.data import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'numpy', 'pooch', 'requests') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    for verb in ("list", "info", "fetch", "path"):
        assert verb in done.stdout
