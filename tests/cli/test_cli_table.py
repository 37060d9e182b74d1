"""``phmrun table`` in every format, of runs that were not trained for it."""

import csv
import io
import json
import shutil
import subprocess

import pytest
from rich.console import Console

from phmrun.cli import console
from phmrun.ledger import Run, State
from phmrun.ledger.environment import DataRecord
from phmrun.ledger.listing import list_runs

PHM = "{structure: phm, n: 4}"
SIGNATURE = "labels:a+b|weights:best@3"


@pytest.fixture
def runs_dir(tmp_path):
    for seed, (layer, right) in enumerate((("dense", 95), ("dense", 94), (PHM, 60), (PHM, 61))):
        name = f"sva-builtin-x-{seed}-0123456789a{seed}"
        config = f"task: sva\nseed: {seed}\ndata: {{name: builtin}}\nlayer: {layer}\n"
        run = Run.create(tmp_path / "runs", name, config)
        run.write_parameters({"total": 120 if "phm" in layer else 100, "multiplications": 5000})
        rows = "".join(f"{'a' if place < right else 'b'}\t1\ta\t\n" for place in range(100))
        run.predictions.mkdir()
        (run.predictions / "test.tsv").write_text(f"predicted\tprobability\tlabel\tpart\n{rows}")
        run.add_metrics({"test/accuracy": {"value": float(right), "signature": SIGNATURE}})
        run.add_metrics({"test/accuracy-of-majority": {"value": 50.0, "signature": "always:a"}})
        run.set_state(State.DONE)
    Run.create(tmp_path / "runs", "sva-builtin-y-9-0123456789af", "task: sva\n")
    return tmp_path / "runs"


def test_table_shows_mean_deviation_and_seeds(phmrun, runs_dir):
    result = phmrun("table", "--runs-dir", str(runs_dir))
    assert result.code == 0
    lines = [line.split() for line in result.out.splitlines()]
    assert ["dense", "100", "94.50", "±", "0.71", "2"] in lines
    assert ["phm", "n=4", "120", "60.50", "±", "0.71*", "2"] in lines
    assert ["majority", "(floor)", "50.00"] in lines
    assert ["phm", "n=4", "-34.00"] in [line[:3] for line in lines]
    assert "* different from the dense cell" in result.out
    assert "over test items, these runs fixed" in result.out
    assert "test/accuracy: labels:a+b|weights:best\n" in result.out
    assert phmrun("table", "--runs-dir", str(runs_dir), "--only", "layer=phm").code == 2


def test_runs_that_diverged_count_without_a_name(phmrun, runs_dir):
    config = f"task: sva\nseed: 7\ndata: {{name: builtin}}\nlayer: {PHM}\n"
    reason = "the training loss is nan at optimizer step 9"
    Run.create(runs_dir, "sva-builtin-x-7-0123456789a7", config).set_state(State.FAILED, reason)
    phm = json.loads(phmrun("table", "--runs-dir", str(runs_dir), "--json").out)["cells"][1]
    assert [phm[key] for key in ("verdict", "collapsed", "compared_seeds")] == ["different", [1, 0], [2, 2]]


def test_markdown_and_latex(phmrun, runs_dir, tmp_path):
    shown = phmrun("table", "--runs-dir", str(runs_dir), "--format", "md").out
    assert "| phm n=4 | 120 | 60.50 ± 0.71* | 2 |" in shown
    latex = phmrun("table", "--runs-dir", str(runs_dir), "--format", "latex").out
    assert "phm n=4 & 120 & 60.50 $\\pm$ 0.71$*$ & 2 \\\\" in latex
    assert latex.count("\\caption{") == latex.count("\\label{tab:") == 2  # the scores, and the verdicts
    assert "& $-$34.00 & $-$" in latex
    if shutil.which("pdflatex"):
        document = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}{latex}\\end{{document}}"
        (tmp_path / "table.tex").write_text(document)
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]


def test_numbers_for_programs(phmrun, runs_dir):
    cells = json.loads(phmrun("table", "--runs-dir", str(runs_dir), "--json").out)["cells"]
    assert [cell["layer"] for cell in cells] == ["dense", "phm n=4"]
    assert cells[0]["values"] == [95.0, 94.0]
    assert cells[1]["p"] < 0.01
    costly = phmrun("table", "--runs-dir", str(runs_dir), "--costs", "trained,latency", "--json").out
    assert json.loads(costly)["cells"][0].items() >= {"trained": None, "latency": None}.items()
    text = phmrun("table", "--runs-dir", str(runs_dir), "--format", "csv", "--no-significance").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["layer"], float(row["mean"]), row["p"]) for row in rows] == [
        ("dense", 94.5, ""),
        ("phm n=4", 60.5, ""),
    ]


def test_what_differs_in_more_than_the_seed_is_never_pooled(phmrun, runs_dir):
    """Runs of one seed: another corpus under the same name, other step counts, other parts of the network."""

    def make(name, extra, marks=None):
        run = Run.create(runs_dir.parent / "mixed", f"sva-files-dense-1-{name * 12}", f"task: sva\nseed: 1\n{extra}")
        run.write_parameters({"total": 100})
        if marks:
            run.write_data(DataRecord({}, marks))
        run.add_metrics({"test/accuracy": {"value": 79.0, "signature": SIGNATURE}})
        run.set_state(State.DONE)

    files = "data: {name: files, train: /tmp/a.tsv, dev: /tmp/b.tsv}\n"
    make("a", files, {"train": "1" * 64})
    make("b", files, {"train": "2" * 64})
    make("c", "training: {max_steps: 10, max_epochs: null}\n")
    make("d", "training: {max_steps: 60, max_epochs: null}\n")
    make("e", "output: circulant\ntraining: {max_steps: 60, max_epochs: null}\n")
    result = phmrun("table", "--json", "--no-significance", "--runs-dir", str(runs_dir.parent / "mixed"))
    assert result.code == 0, result.err
    cells = [cell for cell in json.loads(result.out)["cells"] if cell["mean"] is not None]
    assert sorted(len(cell["runs"]) for cell in cells) == [1] * 5
    assert {cell["layer"] for cell in cells} == {"dense", "output circulant"}
    assert {cell["training.max_steps"] for cell in cells} >= {"10", "60"}
    assert sum(cell["column"].startswith("a.tsv ") for cell in cells) == 2
    listed = phmrun("runs", "list", "--runs-dir", str(runs_dir.parent / "mixed")).out
    assert "output circulant" in listed


def test_no_verdict_between_unequal_step_counts(phmrun, runs_dir):
    """Runs that --max-time ended are compared only with runs of the same number of steps."""
    for run in list_runs(runs_dir):
        if run.id.startswith("sva-builtin-x"):
            Run(run.path).set_state(State.INTERRUPTED, "the time limit", step=100 if "phm" in run.network else 128)
    names = [run.id for run in list_runs(runs_dir) if run.id.startswith("sva-builtin-x")]
    cells = json.loads(phmrun("table", *names, "--runs-dir", str(runs_dir), "--json").out)["cells"]
    assert [(cell["steps"], cell["states"][0], cell["verdict"]) for cell in cells] == [
        ([128, 128], "interrupted", None),
        ([100, 100], "interrupted", None),
    ]
    out = phmrun("table", *names, "--runs-dir", str(runs_dir)).out
    assert ["phm", "n=4", "120", "60.50", "±", "0.71†", "2"] in [line.split() for line in out.splitlines()]
    assert f"† not finished: {names[0]} is interrupted at step 128; " in out
    assert "phm n=4: not compared: trained for 100 steps, dense for 128 steps" in out
    for run in list_runs(runs_dir):
        if run.id.startswith("sva-builtin-x"):
            Run(run.path).set_state(State.INTERRUPTED, "the time limit", step=100)
    cells = json.loads(phmrun("table", *names, "--runs-dir", str(runs_dir), "--json").out)["cells"]
    assert [cell["verdict"] for cell in cells] == [None, "different"]


def test_a_terminal_of_80_columns_keeps_score_verdict_parameters_and_five_lines_of_notes(phmrun, runs_dir, monkeypatch):
    def lines(*options):
        screen = io.StringIO()
        terminal = Console(file=screen, force_terminal=True, width=80, color_system=None)
        monkeypatch.setattr(console, "stdout", lambda: terminal)
        assert phmrun("table", "--runs-dir", str(runs_dir), *options).code == 0
        return [line.rstrip() for line in screen.getvalue().splitlines()]

    few, every = lines(), lines("--explain")
    assert few[0].split()[:3] == ["layer", "parameters", "test/accuracy"]
    assert few[-1].endswith("--explain")
    assert any({"Δ", "verdict"} <= set(line.split()) for line in few)
    first = few.index(next(line for line in few if line.startswith("estimand")))
    assert few[first:-1] == every[first : len(few) - 1]
    assert len(few) - 1 - first <= 5 < len(every) - first


def test_list_names_the_tables_of_the_papers(phmrun):
    tables = json.loads(phmrun("table", "--list", "--json").out)
    assert {"file": "configs/papers/phm/table6.yaml", "reduced": True} in [
        {key: table[key] for key in ("file", "reduced")} for table in tables
    ]
    assert all(table["title"] for table in tables)
