"""Every command and every Python block of the documentation runs, page by page, in the order of the page."""

import io
import json
import lzma
import re
import shlex
import sys
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest
from forks import forked_runs

from phmrun.cli.app import main
from phmrun.config.experiment import leaves
from phmrun.datasets import builtin
from phmrun.errors import ExitCode
from phmrun.registry import METRICS, STRUCTURES, TASKS
from phmrun.sweeps.file import SweepFile

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PAGES = [
    "first-steps",
    "hugging-face",
    "own-data",
    "own-parts",
    "own-script",
    "compare-my-layer",
    "papers",
    "python",
    "run-directory",
    "smaller",
]


def blocks(page):
    return BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))


def run_command(line, monkeypatch):
    """Run one line of a console block: a phmrun command, possibly with text piped into it, or ``export NAME=VALUE``."""
    if line.startswith("export "):
        monkeypatch.setenv(*line.removeprefix("export ").split("=", 1))
        return
    *before, command = line.split(" | ")
    words = shlex.split(command)
    assert words[0] == "phmrun", line
    if before:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(shlex.split(before[0])[1].encode() + b"\n")))
    with pytest.raises(SystemExit) as end:
        main(words[1:])
    # A plan whose data are not on this machine ends with 3, as the page says.
    assert end.value.code in ((0, None, ExitCode.DATA) if line.endswith("--plan") else (0, None)), line


@pytest.fixture(scope="module")
def few_data(tmp_path_factory):
    """Folder in the place of the built-in corpora, with the first items of each file."""
    folder = tmp_path_factory.mktemp("builtin")
    sums = ""
    for corpus in builtin.VERSIONS:
        (folder / corpus).mkdir()
        for name in builtin.checksums(corpus):
            packed = files(builtin.__name__).joinpath(corpus, f"{name}.xz")
            end = b"\n\n" if name.endswith(".conllu") else b"\n"
            items = lzma.decompress(packed.read_bytes()).split(end)
            content = end.join(items[: 60 if name.startswith(("dev", "test")) else 3000]).rstrip(b"\n") + end
            (folder / corpus / f"{name}.xz").write_bytes(lzma.compress(content, preset=0))
            sums += f"{sha256(content).hexdigest()}  {corpus}/{name}\n"
    (folder / "SHA256SUMS").write_text(sums)
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_as_it_is_written(page, few_data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PHMRUN_CACHE", str(few_data / "cache"))
    monkeypatch.setattr(builtin, "files", lambda name: few_data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(METRICS, "_registered", dict(METRICS._registered))  # a page's metric would score other tests
    with forked_runs(12):
        assert run_page(page, tmp_path, monkeypatch)


def run_page(page, folder, monkeypatch):
    """Write the files of a page and run its blocks, in order; returns how many ran."""
    names = {}
    ran = 0
    for language, title, text in blocks(page):
        if title:
            path = folder / title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("\nseeds: 2\n", "\nseeds: 1\n"), encoding="utf-8")
        elif language == "console":
            for line in text.splitlines():
                assert line.startswith("$ "), line
                run_command(line[2:], monkeypatch)
                ran += 1
        elif language == "python":
            exec(compile(text, f"{page}.md", "exec"), names)
            ran += 1
    return ran


def test_the_notebook_runs(few_data, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_CACHE", str(few_data / "cache"))
    monkeypatch.setattr(builtin, "files", lambda name: few_data)
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
