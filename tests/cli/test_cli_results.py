"""``phmrun results``, on the results that the project carries: no data, no training."""

import json
import shutil
from pathlib import Path
from statistics import fmean

import pytest
from matplotlib.figure import Figure

from phmrun.errors import ExitCode
from phmrun.results.plots import sweeps as pictures

ROOT = Path(__file__).parents[2]
SWEEP = "agreement-phm"


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """The results in a folder of their own, on a machine without data."""
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results", tmp_path / "results")
    return tmp_path


def test_tables_are_made_of_results_alone(phmrun, clone):
    first = clone / "results" / SWEEP
    for folder in (clone / "results").iterdir():
        if folder.is_dir() and folder.name not in (SWEEP, "ptb-small"):
            shutil.rmtree(folder)
    restored = phmrun("results", "restore", "results", "--runs-dir", "runs", "--json")
    assert len(json.loads(restored.out)["runs"]) == len(list((clone / "results").glob("*/*.json")))
    alone = phmrun("results", "restore", str(first), "--runs-dir", "of one sweep")
    assert alone.out == f"{len(list(first.glob('*.json')))} runs in of one sweep\n"
    options = ["--runs-dir", "runs", "--json"]
    cells = json.loads(phmrun("table", str(first / "sweep.yaml"), *options).out)["cells"]
    by_n = {cell["layer.n"]: cell for cell in cells}
    recorded = [json.loads(path.read_text()) for path in first.glob("*.json")]
    rate = {"dense": "", "phm": by_n["2"]["training.optimizer.lr"]}
    values = [
        item["metrics"]["test/accuracy"]["value"]
        for item in sorted(recorded, key=lambda record: record["config"]["seed"])
        if item["config"]["layer"].get("n") == 2
        and float(item["config"]["training"]["optimizer"]["lr"]) == float(rate["phm"])
    ]
    assert by_n["2"]["values"] == values
    assert by_n["8"]["verdict"] == "different"
    assert phmrun("report", str(first / "sweep.yaml"), *options[:-1], "--out", "page.html").code == 0
    assert '<td>phm n=8, lr 0.00949</td><td class="number">-9.09</td>' in Path("page.html").read_text()
    refused = phmrun("eval", by_n["2"]["runs"][0], "--runs-dir", "runs")
    assert refused.code == ExitCode.DATA
    assert "only its result is here" in refused.err


def test_table_and_picture_show_every_seed_that_has_a_run(phmrun, clone, monkeypatch):
    folder = clone / "results" / "translation-equal"
    phmrun("results", "restore", str(folder), "--runs-dir", "runs")
    by_rate: dict[tuple[str, float], dict[int, float]] = {}
    for record in map(json.loads, (path.read_text() for path in folder.glob("*.json"))):
        config = record["config"]
        row = config["layer"]["structure"], float(config["training"]["optimizer"]["lr"])
        by_rate.setdefault(row, {})[config["seed"]] = record["metrics"]["test/bleu"]["value"]
    # Only at the chosen rate are there more seeds than one.
    scores = {layer: [seeds[n] for n in sorted(seeds)] for (layer, _), seeds in by_rate.items() if len(seeds) > 1}
    means = {layer: fmean(values) for layer, values in scores.items()}
    cells = json.loads(phmrun("table", str(folder / "sweep.yaml"), "--runs-dir", "runs", "--json").out)["cells"]
    assert {cell["layer"].split()[0]: cell["values"] for cell in cells} == scores
    first = phmrun("table", str(folder / "sweep.yaml"), "--only", "seed=1", "--runs-dir", "runs", "--json").out
    assert [cell["planned"] for cell in json.loads(first)["cells"]] == [1] * 5
    drawn = []
    monkeypatch.setattr(pictures, "draw_pareto", lambda points, *_, **more: drawn.extend(points) or Figure())
    assert phmrun("plot", "pareto", str(folder / "sweep.yaml"), "--runs-dir", "runs", "--out", "a.svg").code == 0
    assert {point.label.split()[0].strip(","): point.score for point in drawn} == pytest.approx(means)
    assert means["phm"] > means["monarch"]
