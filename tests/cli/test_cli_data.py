"""``phmrun data``: what it prints, for people and for programs, and how it ends."""

import json

import pytest
from typer.testing import CliRunner

from phmrun.cli.data import app
from phmrun.datasets import CATALOGUE
from phmrun.errors import ExitCode, PhmrunError
from phmrun.registry import TASKS


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


def test_info_tells_everything(data):
    printed = run("info", "multi30k")
    for part in ("non-commercial", "@inproceedings{elliott", "github.com/multi30k", "train.en.gz", "missing"):
        assert part in printed
    fill(data)
    assert "wrong checksum" in run("info", "multi30k")


def write_scitail(data, name, rows):
    path = data / "scitail" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"a premise {number}\ta hypothesis\t{label}\n" for number, label in enumerate(rows)))


def ends(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_check_compares_with_what_is_published(data):
    with pytest.raises(PhmrunError, match="not on this machine"):
        run("info", "scitail", "--check")
    write_scitail(data, "scitail_1.0_dev.tsv", ["entails", "neutral"] * 652)
    rows = {row["split"]: row for row in json.loads(run("info", "scitail", "--check", "--json"))}
    assert rows["dev"] == {
        "split": "dev", "unit": "pairs", "found": 1304, "published": 1304, "verdict": "as published"
    }  # fmt: skip
    assert rows["train"]["verdict"] == "not here"
    write_scitail(data, "scitail_1.0_test.tsv", ["neutral"] * 5)
    result = ends("info", "scitail", "--check")
    assert result.exit_code == ExitCode.DATA
    assert "too few" in result.stdout


@pytest.mark.parametrize("task", ["nmt", "style", "sva", "nli", "parse", "lm"])
def test_every_sample_of_a_format_is_read(phmrun, task, tmp_path):
    from phmrun.text.agreement import read_agreement
    from phmrun.text.conllu import load
    from phmrun.text.lines import numbered_lines, read_parallel
    from phmrun.text.nli_pairs import read_pairs

    samples = TASKS.get(task).formats
    assert samples
    for sample in samples:
        paths = []
        for name, text in sample.files.items():
            paths.append(tmp_path / name)
            paths[-1].write_text(text)
        readers = {
            "sva": read_agreement,
            "nli": lambda path: read_pairs(path, "tsv"),
            "parse": load,
            "lm": numbered_lines,
        }
        assert list(readers.get(task, read_parallel)(*paths))
        if task == "sva":
            assert next(read_agreement(paths[0])).prefix == "the dog near the cats"
    shown = phmrun("schema", task, "--files").out
    assert all(text in shown for sample in samples for text in sample.files.values())
