"""``phmrun data``: what it prints, for people and for programs, and how it ends."""

import json
import subprocess
import sys

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


def marks(*arguments):
    """State of each dataset in ``data list``: complete, incomplete or missing."""
    return {line.split()[1]: line[0] for line in run("list", *arguments).splitlines() if line[0] in "✓◐–"}


def test_list_marks_what_is_here(data):
    assert marks()["builtin"] == "✓"
    assert set(marks().values()) == {"✓", "–"}
    fill(data)
    assert marks()["multi30k"] == "✓"
    (data / "multi30k/val.de.gz").unlink()
    assert marks()["multi30k"] == "◐"


def test_list_of_one_task():
    assert {"snli", "mnli", "scitail", "dnli", "qnli", "sick", "builtin"} == set(marks("--task", "nli"))
    assert "multi30k" not in marks("--task", "parse")
    with pytest.raises(PhmrunError) as caught:
        run("list", "--task", "nml")
    assert caught.value.code is ExitCode.USAGE
    assert "nmt" in caught.value.valid


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


@pytest.mark.parametrize("verb", ["info", "fetch", "check"])
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


def write_scitail(data, name, rows):
    path = data / "mine" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"a premise {number}\ta hypothesis\t{label}\n" for number, label in enumerate(rows)))
    return path


def ends(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_import_takes_files_by_name_or_by_split(data):
    rows = ["entails", "neutral"] * 652
    dev = write_scitail(data, "scitail_1.0_dev.tsv", rows)
    assert str(data / "scitail/scitail_1.0_dev.tsv") in run("import", "scitail", str(dev))
    test = write_scitail(data, "mine.txt", rows[:100])
    with pytest.raises(PhmrunError, match="instead of the published 2,126"):
        run("import", "scitail", f"test={test}")
    assert str(data / "scitail/scitail_1.0_test.tsv") in run("import", "scitail", f"test={test}", "--force")
    assert marks()["scitail"] == "◐"


def test_check_compares_with_what_is_published(data):
    with pytest.raises(PhmrunError, match="not on this machine"):
        run("check", "scitail")
    run("import", "scitail", str(write_scitail(data, "scitail_1.0_dev.tsv", ["entails", "neutral"] * 652)))
    rows = {row["split"]: row for row in json.loads(run("check", "scitail", "--json"))}
    assert rows["dev"] == {
        "split": "dev", "unit": "pairs", "found": 1304, "published": 1304, "verdict": "as published"
    }  # fmt: skip
    assert rows["train"]["verdict"] == "not here"
    run("import", "scitail", "--force", f"test={write_scitail(data, 'short.tsv', ['neutral'] * 5)}")
    result = ends("check", "scitail")
    assert result.exit_code == ExitCode.DATA
    assert "too few" in result.stdout
    (data / "scitail/scitail_1.0_dev.tsv").write_text("x\ty\tneutral\n")
    result = ends("check", "scitail", "--split", "dev")
    assert result.exit_code == ExitCode.DATA
    assert "wrong checksum" in result.stdout


def test_check_of_what_is_generated():
    assert "nothing to check" in run("check", "builtin")


def test_an_unknown_split_is_a_usage_error():
    for verb in ("fetch", "check"):
        with pytest.raises(PhmrunError) as caught:
            run(verb, "snli", "--split", "trian")
        assert caught.value.code is ExitCode.USAGE
        assert "train" in caught.value.hint


def test_help_of_data_imports_nothing_heavy():
    code = (
        "import sys; from phmrun.cli.data import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'numpy', 'pooch', 'requests') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    for verb in ("list", "info", "fetch", "import", "check", "formats"):
        assert verb in done.stdout


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
    shown = phmrun("data", "formats", task).out
    assert all(text in shown for sample in samples for text in sample.files.values())


def test_the_next_command_loads_the_plugin(phmrun, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my metric.py").write_text("")
    printed = phmrun("data", "formats", "sva", "--plugin", "my metric.py").err
    assert "phmrun train sva --train train.tsv --dev dev.tsv --test test.tsv --plugin 'my metric.py'\n" in printed
