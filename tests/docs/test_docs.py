"""Every command and every Python block of the documentation runs, page by page, in the order of the page."""

import io
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from forks import forked_runs

from phmrun.cli.app import main
from phmrun.config.experiment import leaves
from phmrun.errors import ExitCode
from phmrun.registry import METRICS, STRUCTURES, TASKS
from phmrun.sweeps.file import SweepFile

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?', re.MULTILINE | re.DOTALL)
FRACTION = re.compile(r"\d+\.\d+")
# Settings for the README's trainings, which take minutes as they are written.
SHORT = ("--max-steps", "2", "--set", "decoding.beam=1", "--set", "decoding.max_length_ratio=0.2")
EXACT = ["../README", "index", "reading-a-table"]  # pages whose numbers are read or computed from files
OTHERS = ["first-steps", "hugging-face", "own-data", "own-parts", "own-script", "compare-my-layer", "papers"]


def run_command(line, monkeypatch):
    """Run a line of a console block: phmrun commands, possibly with text piped into one, or ``export NAME=VALUE``."""
    if line.startswith("export "):
        monkeypatch.setenv(*line.removeprefix("export ").split("=", 1))
        return
    *before, command = line.split(" | ")
    if before:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(shlex.split(before[0])[1].encode() + b"\n")))
    for part in command.split(" && "):
        words = shlex.split(part, comments=True)
        assert words[0] == "phmrun", line
        with pytest.raises(SystemExit) as end:
            main([*words[1:], *(SHORT if words[1:3] == ["train", "nmt"] and "--layer" in words else ())])
        # A plan whose data are not on this machine ends with 3, as the page says.
        assert end.value.code in ((0, None, ExitCode.DATA) if line.endswith("--plan") else (0, None)), line


def same(shown, printed, tolerance):
    """Return whether a printed line has the words and whole numbers of a shown one, and nearly its fractions."""
    shown, printed = (" ".join(line.split()) for line in (shown, printed))
    words = ".*".join(re.escape(FRACTION.sub("#", part)) for part in shown.split("…"))
    if not re.fullmatch(words, FRACTION.sub("#", printed)):
        return False
    numbers = [[float(number) for number in FRACTION.findall(line)] for line in (shown, printed)]
    return "…" in shown or np.allclose(*numbers, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("page", [*EXACT, *OTHERS, "python", "run-directory", "smaller"])
def test_a_page_runs_and_prints_as_it_is_written(page, tmp_path_factory, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("examples", "results"):
        (tmp_path / name).symlink_to(DOCS.parent / name)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Without data, since a plan tells of those that are here.
    for name, value in {"WANDB_MODE": "disabled", "COLUMNS": "200", "PHMRUN_DATA": str(tmp_path / "none")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(METRICS, "_registered", dict(METRICS._registered))  # a page's metric would score other tests
    with forked_runs(12):
        assert run_page(page, tmp_path, monkeypatch, capsys)


def run_page(page, folder, monkeypatch, capsys):
    """Write the files of a page and run its blocks, in order; compare what is shown; returns how many ran."""
    names = {}
    ran = 0
    for language, title, text, output in BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8")):
        if title:
            path = folder / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif language == "console" and "$ make" not in text:  # what continuous integration runs itself
            commands = [line[2:] for line in text.splitlines() if line.startswith("$ ") and "-m venv" not in line]
            for line in commands:
                run_command(line, monkeypatch)
                ran += 1
            printed = "".join(capsys.readouterr()).splitlines()
            shown = [line for line in text.splitlines() if line[:2] != "$ "] + output.splitlines()
            tolerance = 0 if page in EXACT else 0.05
            missing = [line for line in shown if not any(same(line, other, tolerance) for other in printed)]
            assert not missing, printed
        elif language == "python":
            exec(compile(text, f"{page}.md", "exec"), names)
            ran += 1
    return ran


def test_the_notebook_runs(tmp_path_factory, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((DOCS.parent / "examples" / "first_run.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in notebook["cells"][2:] if cell["cell_type"] == "code")
    names: dict = {}
    for cell in cells:
        exec(compile(cell, "first_run.ipynb", "exec"), names)
    assert set(names["runs"]) == {"dense", "phm"}


def test_every_page_is_in_the_navigation():
    listed = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for path in DOCS.rglob("*.md"):
        assert str(path.relative_to(DOCS)) in listed


def test_every_name_of_the_readme_and_docs_is_there():
    """Paths of the repository that a page names exist."""
    root = DOCS.parent
    pages = [root / "README.md", root / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    for page in pages:
        for name in re.findall(r"`((?:phmrun|tasks|configs|tests|docs|examples)/[\w/.-]+)`", page.read_text()):
            assert (root / name).exists(), f"{page.name}: {name}"


def test_configuration_reference_has_every_key_of_every_task(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import configuration_reference

    page = configuration_reference.page()
    for task in TASKS.names():
        for key, _ in leaves(TASKS.get(task).load("schema")()):
            parts = key.split(".")
            sections = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
            assert any(f"| `{section}` |" in page for section in sections), key
    assert not re.search(r"\| +\|", page), "a key without type, default or meaning"


def test_configuration_page_has_every_key_of_a_sweep_file():
    page = (DOCS / "run-directory.md").read_text()
    section = page.partition("\n## Sweep files\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(SweepFile.model_fields)


def test_structure_reference_has_a_formula_for_every_structure(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import structure_reference

    assert {*structure_reference.LATEX} <= {*STRUCTURES.names()}
    page = structure_reference.page()
    for name in STRUCTURES.names():
        assert f"## {name}\n" in page
        assert name in structure_reference.LATEX or STRUCTURES.get(name).formula in page
    assert "data:image/png;base64," in structure_reference.picture("phm")
