"""Table of formats: cells of measured formats, and of those that are only written; runs that are trained already."""

from argparse import Namespace
from pathlib import Path

from benchmarks import formats
from benchmarks.formats import COLUMNS, measured, row, runs_of
from phmrun.exchange.formats import Format
from phmrun.ledger import Run
from phmrun.sweeps.serving import Served


def test_formats_that_are_not_measured_have_dashes():
    entry = {"label": "onnx", "bytes": 5763, "difference": 2e-7, "changed": None, "score": None}
    cells = row("phm n=4", entry)
    assert len(cells) == len(COLUMNS)
    assert cells == ("phm n=4", "onnx", "5,763", "2e-07", "–", "–", "–", "–", "–")


def test_trained_runs_are_measured_under_the_labels_of_their_networks(tmp_path):
    layers = {"nmt-x-1-0123456789ab": "{structure: dense}", "nmt-x-1-0123456789ac": "{structure: phm, n: 8}"}
    for name, layer in layers.items():
        Run.create(tmp_path, name, f"task: nmt\nlayer: {layer}\n")
    runs = list(runs_of(Namespace(runs=[tmp_path / name for name in layers])))
    assert [(name, run.id) for name, run in runs] == list(zip(("dense", "phm n=8"), layers, strict=True))


def test_chosen_formats_are_measured_beside_the_checkpoint(tmp_path, monkeypatch):
    kinds = [Format("checkpoint"), Format("onnx"), Format("onnx", False, "int8")]
    monkeypatch.setattr(formats, "open_run", lambda run: run)
    monkeypatch.setattr(formats, "formats_of", lambda trained: kinds)
    monkeypatch.setattr(
        formats, "serve_all", lambda run, items, split: [Served(item, Path("x"), 9, 36) for item in items]
    )
    run = Run.create(tmp_path, "nmt-x-1-0123456789ab", "task: nmt\n")
    assert [entry["label"] for entry in measured(run, "test", only=["onnx int8"])] == ["checkpoint", "onnx int8"]
    assert [entry["label"] for entry in measured(run, "test")] == ["checkpoint", "onnx", "onnx int8"]
