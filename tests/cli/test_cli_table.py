"""``phmrun table`` in every format, of runs that were not trained for it."""

import csv
import io
import json
import shutil
import subprocess

import pytest
from rich.console import Console

from phmrun.cli import console
from phmrun.cli.app import whole
from phmrun.errors import ExitCode
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
        run.update_metrics("test/accuracy", {"value": float(right), "signature": SIGNATURE})
        run.update_metrics("test/accuracy-of-majority", {"value": 50.0, "signature": "always:a"})
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


def test_markdown_and_latex(phmrun, runs_dir, tmp_path):
    shown = phmrun("table", "--runs-dir", str(runs_dir), "--format", "md").out
    assert "| phm n=4 | 120 | 60.50 ± 0.71* | 2 |" in shown
    latex = phmrun("table", "--runs-dir", str(runs_dir), "--format", "latex").out
    assert "phm n=4 & 120 & 60.50 \\pm 0.71 {$*$} & 2 \\\\" in latex
    assert "94.50 \\pm 0.71" in latex
    assert "S[table-format=2.2(2), separate-uncertainty]" in latex
    assert latex.count("\\caption{") == latex.count("\\label{tab:") == 2  # the scores, and the verdicts
    assert "& -34.00 & $-$" in latex  # siunitx's own minus in a column of numbers, a mathematical one in text
    if shutil.which("pdflatex"):
        document = (
            f"\\documentclass{{article}}\\usepackage{{booktabs,siunitx}}\\begin{{document}}{latex}\\end{{document}}"
        )
        (tmp_path / "table.tex").write_text(document)
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]


def test_numbers_for_programs(phmrun, runs_dir):
    cells = json.loads(phmrun("table", "--runs-dir", str(runs_dir), "--json").out)["cells"]
    assert [cell["layer"] for cell in cells] == ["dense", "phm n=4"]
    assert cells[0]["values"] == [95.0, 94.0]
    assert cells[1]["p"] < 0.01
    assert json.loads(phmrun("table", "--runs-dir", str(runs_dir), "--format", "json").out)["cells"] == cells
    text = phmrun("table", "--runs-dir", str(runs_dir), "--format", "csv", "--no-significance").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["layer"], float(row["mean"]), row["p"]) for row in rows] == [
        ("dense", 94.5, ""),
        ("phm n=4", 60.5, ""),
    ]


def test_costs_and_the_pareto_front(phmrun, runs_dir):
    machine = {"processor": "a processor", "threads": 1, "load_average": 0.1}
    for run in list_runs(runs_dir):
        if run.id.startswith("sva-builtin-x"):
            steps = {"median_seconds": 0.5 if run.about("layer") == "dense" else 0.1, "steps": 4, "machine": machine}
            Run(run.path).add_bench({"training": steps})
    asked = ("--runs-dir", str(runs_dir), "--no-significance", "--pareto", "step-time")
    out = phmrun("table", *asked, "--costs", "multiplications,training-time").out
    lines = [line.split() for line in out.splitlines()]
    both = [["phm", "n=4", "120", "5,000", "–", "25"], ["dense", "100", "5,000", "–", "125"]]  # the faster one first
    assert [line[: len(start)] for line, start in zip(lines[1:], both, strict=False)] == both
    assert lines[1][-2:] == ["yes", "2"] == lines[2][-2:]
    assert "ms per step: on record for 4 of 4 runs, on a processor, threads: 1, load average 0.1" in out
    front = phmrun("table", "--runs-dir", str(runs_dir), "--no-significance", "--pareto", "parameters").out
    assert [line.split()[-2] for line in front.splitlines()[1:3]] == ["yes", "0.71"]  # dense is smaller and better
    cell = json.loads(phmrun("table", *asked, "--json").out)["cells"][1]
    assert (cell["multiplications"], cell["seconds_per_step"], cell["training_seconds"]) == (5000, 0.025, None)
    wrong = phmrun("table", "--runs-dir", str(runs_dir), "--costs", "flops")
    assert (wrong.code, "step-time" in wrong.err) == (2, True)


def test_all_pairs_in_every_format(phmrun, runs_dir):
    for seed, right in ((4, 80), (5, 81)):
        copy = runs_dir / f"sva-builtin-x-{seed}-0123456789a{seed}"
        shutil.copytree(runs_dir / "sva-builtin-x-2-0123456789a2", copy)
        text = (copy / "config.yaml").read_text().replace("n: 4", "n: 2").replace("seed: 2", f"seed: {seed}")
        (copy / "config.yaml").write_text(text)
        Run(copy).update_metrics("test/accuracy", {"value": float(right), "signature": SIGNATURE})
    arguments = ["table", "--runs-dir", str(runs_dir), "--all-pairs"]
    shown = phmrun(*arguments).out
    assert "simultaneous over 3 pairs" in shown
    assert "the dense cell" not in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["phm", "n=2", "phm", "n=4", "+20.00"] in [line[:5] for line in lines]
    pairs = json.loads(phmrun(*arguments, "--json").out)["pairs"]
    assert [(pair["row"], pair["beside"]) for pair in pairs] == [
        ("phm n=4", "dense"), ("phm n=2", "dense"), ("phm n=2", "phm n=4")
    ]  # fmt: skip
    table = list(csv.DictReader(io.StringIO(phmrun(*arguments, "--format", "csv").out)))
    assert [float(line["difference"]) for line in table] == [pair["difference"] for pair in pairs]
    assert "| phm n=2 | phm n=4 | +20.00 |" in phmrun(*arguments, "--format", "md").out
    assert "phm n=2 & phm n=4 & +20.00" in phmrun(*arguments, "--format", "latex").out


def test_chosen_runs_and_shape(phmrun, runs_dir):
    arguments = ["sva-builtin-x-0", "sva-builtin-x-2", "--rows", "seed", "--score", "test/accuracy-of-majority"]
    out = phmrun("table", *arguments, "--agg", "mean", "--runs-dir", str(runs_dir)).out
    assert ["2", "120", "50.00", "1"] in [line.split() for line in out.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--agg", "men"], "there is no aggregate 'men'"),
        (["--paper"], "there are no published scores for these"),
        (["--rows", "nothing"], "no experiment has a value at 'nothing'"),
        (["--all-pairs", "--no-significance"], "all pairs cannot be compared with --no-significance"),
        (["no-such-run"], "there is no run 'no-such-run'"),
        (["missing.yaml"], "there is no such file"),
    ],
)
def test_bad_arguments_of_table_are_usage_errors(phmrun, runs_dir, arguments, what):
    result = phmrun("table", *arguments, "--runs-dir", str(runs_dir))
    assert result.code == ExitCode.USAGE
    assert what in result.err


def test_nothing_is_done(phmrun, tmp_path):
    assert "no run in" in phmrun("table", "--runs-dir", str(tmp_path)).err


def test_pictures_of_the_same_runs(phmrun, runs_dir, tmp_path):
    pair = ["sva-builtin-x-0", "sva-builtin-x-2"]
    for path, verb in (("pareto.svg", "pareto"), ("speed.png", "speed")):
        result = phmrun("plot", verb, *pair, "--out", str(tmp_path / path), "--runs-dir", str(runs_dir))
        assert (result.code, result.out) == (0, f"{tmp_path / path}\n")
        assert (tmp_path / path).stat().st_size > 1000
    wrong = phmrun("plot", "pareto", "sva-builtin-x-0", "--score", "test/blue", "--runs-dir", str(runs_dir))
    assert wrong.code == ExitCode.USAGE
    assert "there is no score 'test/blue'" in wrong.err


def test_what_differs_in_more_than_the_seed_is_never_pooled(phmrun, runs_dir):
    """Runs of one seed: another corpus under the same name, other step counts, other parts of the network."""

    def make(name, extra, marks=None):
        run = Run.create(runs_dir.parent / "mixed", f"sva-files-dense-1-{name * 12}", f"task: sva\nseed: 1\n{extra}")
        run.write_parameters({"total": 100})
        if marks:
            run.write_data(DataRecord({}, marks))
        run.update_metrics("test/accuracy", {"value": 79.0, "signature": SIGNATURE})
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


def test_a_score_that_no_run_has(phmrun, runs_dir):
    result = phmrun("table", "--score", "test/acuracy", "--runs-dir", str(runs_dir))
    assert result.code == ExitCode.USAGE
    assert "there is no score 'test/acuracy'" in result.err
    assert "Did you mean 'test/accuracy'" in result.err


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


def test_rows_are_compared_with_the_dense_row_of_as_many_steps(phmrun, runs_dir):
    """A sweep over the number of steps has a dense row for each."""
    for seed, (layer, right) in enumerate((("dense", 80), ("dense", 79), (PHM, 70), (PHM, 71))):
        config = f"task: sva\nseed: {seed}\ndata: {{name: builtin}}\nlayer: {layer}\ntraining: {{max_steps: 50}}\n"
        run = Run.create(runs_dir, f"sva-builtin-z-{seed}-0123456789b{seed}", config)
        run.update_metrics("test/accuracy", {"value": float(right), "signature": SIGNATURE})
        run.set_state(State.DONE)
    cells = json.loads(phmrun("table", "--runs-dir", str(runs_dir), "--json").out)["cells"]
    assert [(cell["training.max_steps"], cell["layer"], cell["difference"]) for cell in cells] == [
        ("", "dense", None),
        ("", "phm n=4", -34.0),
        ("50", "dense", None),
        ("50", "phm n=4", -9.0),
    ]


def test_terminal_has_a_list_and_a_table_for_each_task(runs_dir, monkeypatch):
    """The columns of one task do not push those of another off a screen of 80 columns."""
    run = Run.create(runs_dir, "nmt-builtin-x-1-0123456789ae", "task: nmt\nseed: 1\ndata: {name: builtin}\n")
    run.write_parameters({"total": 100})
    run.update_metrics("test/bleu", {"value": 20.0, "signature": "bs:1000"})
    run.set_state(State.DONE)
    for arguments in (["runs", "list"], ["table"]):
        screen = io.StringIO()
        terminal = Console(file=screen, force_terminal=True, width=80, color_system=None)
        monkeypatch.setattr(console, "stdout", lambda terminal=terminal: terminal)
        whole()(args=[*arguments, "--runs-dir", str(runs_dir)], standalone_mode=False)
        heads = [line for line in screen.getvalue().splitlines() if line.startswith(("run ", "layer "))]
        assert len(heads) == 2
        assert {("bleu" in head, "accuracy" in head) for head in heads} == {(True, False), (False, True)}
