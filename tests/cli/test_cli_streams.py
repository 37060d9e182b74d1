"""Standard streams that are closed or full, and paths that are not Unicode."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAIN = "from phmrun.cli.app import main; main()"


def shell(redirection, *arguments, folder="."):
    command = f'exec "$@" {redirection}'
    words = ["sh", "-c", command, "sh", sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(words, check=False, capture_output=True, cwd=folder)


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_closed_stream_or_full_standard_error_fails_nothing(redirection):
    assert shell(redirection, "schema", "nmt").returncode == 0


def test_an_error_keeps_its_exit_code_without_standard_error():
    assert shell("2>/dev/full", "no-such-verb").returncode == 2


def test_results_that_cannot_be_written_are_an_error_of_the_disk():
    assert shell(">/dev/full", "schema", "nmt").returncode == 3


@pytest.mark.parametrize(
    "words", [["train", "sva", "--train", b"t\xff.tsv"], ["sweep", b"\xff.yaml"], ["data", "list"]]
)
def test_a_path_that_is_not_unicode_is_one_error_and_leaves_nothing(tmp_path, words):
    folder = tmp_path / ("d\udcff" if words[-1] == "list" else "d")
    folder.mkdir()
    done = shell("", *words, folder=folder)
    assert done.returncode == 2
    assert b"has a byte that is not UTF-8" in done.stderr
    assert [*folder.iterdir()] == []


def test_a_dangling_link_in_the_place_of_the_runs_is_an_error_with_its_path(tmp_path):
    (tmp_path / "runs").symlink_to("nowhere")
    result = shell("", "results", "restore", str(ROOT / "results/parser-full"), "--runs-dir", "runs", folder=tmp_path)
    assert (result.returncode, b"runs: something else is here" in result.stderr) == (3, True), result.stderr
