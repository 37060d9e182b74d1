"""The long table of runs: loaded, selected, pivoted, compared, as a data frame."""

import json
from pathlib import Path
from statistics import fmean

import pytest

import phmrun
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.results import Results
from phmrun.statistics.verdict import Verdict

ROOT = Path(__file__).parents[2]
SCORES = {"dense": (90.0, 91.0, 89.0), "{structure: phm, n: 2}": (80.0, 81.0, 80.5), "circulant": (90.2, 90.1, 89.8)}


@pytest.fixture
def runs_dir(tmp_path):
    """Nine finished runs, and one that was interrupted."""
    for layer, scores in SCORES.items():
        for seed, value in enumerate(scores, start=1):
            name = layer.strip("{").replace("structure: ", "").partition(",")[0]
            config = f"task: sva\nseed: {seed}\ndata: {{name: builtin}}\nlayer: {layer}\n"
            run = Run.create(tmp_path / "runs", f"sva-builtin-{name}-{seed}-{len(layer):012x}", config)
            run.add_metrics({"test/accuracy": {"value": value, "signature": "labels:a+b"}})
            run.add_metrics({"test/other": 1.0})
            run.set_state(State.DONE, step=10)
    run = Run.create(tmp_path / "runs", "sva-builtin-dense-4-0123456789ab", "task: sva\nseed: 4\nlayer: dense\n")
    run.set_state(State.INTERRUPTED, step=3)
    return tmp_path / "runs"


def test_every_score_of_a_run_is_a_row(runs_dir):
    results = Results.load(runs_dir)
    rows = list(results)
    assert len(results) == 10
    assert len(rows) == 18  # the interrupted run has no score
    first = next(row for row in rows if row["layer"] == "dense" and row["score"] == "test/accuracy")
    assert (first["seed"], first["state"], first["step"], first["value"]) == (1, "done", 10, 90.0)
    assert first["signature"] == "labels:a+b"


def test_selection_by_labels_settings_and_state(runs_dir):
    results = Results.load(runs_dir)
    assert len(results.select(layer="phm n=2")) == 3
    assert len(results.select({"layer.n": 2}, seed=3)) == 1
    assert [entry.seed for entry in results.select(state="interrupted").entries] == [4]


def test_pivot_holds_the_seeds_of_an_experiment_in_a_cell(runs_dir):
    table = Results.load(runs_dir).select(state="done").pivot(scores=["test/accuracy"])
    means = {labels[0]: line[0].mean for labels, line in zip(table.rows, table.figures, strict=True)}
    named = {"dense": "dense", "phm n=2": "{structure: phm, n: 2}", "circulant": "circulant"}
    assert means == {label: pytest.approx(fmean(SCORES[layer])) for label, layer in named.items()}


def test_comparison_with_dense_or_any_other_baseline(runs_dir):
    results = Results.load(runs_dir).select(state="done")
    (phm,) = results.compare(test={"layer": "phm n=2"}, score="test/accuracy")
    assert phm.judgement.difference.value == pytest.approx(80.5 - 90.0)
    assert phm.verdict is Verdict.DIFFERENT
    by_value = sorted(
        item.judgement.difference.value for item in results.compare({"layer": "circulant"}, score="test/accuracy")
    )
    for select in (lambda: results.select(layr="dense"), lambda: results.compare({"layr": "dense"})):
        with pytest.raises(PhmrunError, match="no experiment has a value at 'layr'"):
            select()
    with pytest.raises(PhmrunError, match=r"no experiment has .*phm n=4"):
        results.compare(test={"layer": "phm n=4"})
    assert by_value == pytest.approx([80.5 - fmean(SCORES["circulant"]), 90.0 - fmean(SCORES["circulant"])])


def test_a_notebook_shows_the_table(runs_dir):
    assert "<td>phm n=2</td>" in Results.load(runs_dir).select(state="done")._repr_html_()


def test_a_folder_of_small_results_is_loaded_without_its_runs():
    folder = ROOT / "results" / "translation-equal"
    rows = list(phmrun.load_results(folder))
    recorded = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    expected = {(item["run"], item["metrics"]["test/bleu"]["value"]) for item in recorded}
    assert {(row["run"], row["value"]) for row in rows if row["score"] == "test/bleu"} == expected
