"""``phmrun export --compare`` of tasks whose ONNX graphs no search calls."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_experiments import configured, run_experiment, run_of

from phmrun.sweeps import serving

SOME = ("checkpoint", "safetensors", "safetensors int8", "safetensors factored", "onnx", "ctranslate2")
"""Formats to measure: each export of a program takes seconds."""
all_of = serving.formats_of


class Here(ThreadPoolExecutor):
    """Executor in this process instead of a new one, for speed."""

    def __init__(self, workers, **start):
        super().__init__(workers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["sva", "nli", "parse", "lm"])
def test_the_command_compares_the_formats_of_tasks_without_a_search(task, phmrun, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "ProcessPoolExecutor", Here)
    for name, value in (("SINGLE", 1), ("ROUNDS", 1), ("BATCHES", (1, 2))):
        monkeypatch.setattr(serving, name, value)
    monkeypatch.setattr(serving, "formats_of", lambda trained: [item for item in all_of(trained) if item.label in SOME])
    settings = {"training": {"max_steps": 2}, "layer": {"structure": "low-rank", "budget": "1/2"}}
    run = run_of(run_experiment(configured(task, tmp_path / "corpus", settings), tmp_path / "runs"))
    shown = phmrun("export", run.id, "--compare", "--json", "--runs-dir", str(run.path.parent))
    assert shown.code == 0, shown.err
    formats = {item["label"]: item for item in json.loads(shown.out)["formats"]}
    assert formats["safetensors"]["changed"] == 0
    assert formats["safetensors"]["sentences"] == formats["safetensors int8"]["sentences"] > 1
    assert "ctranslate2" not in formats
    for item in formats.values():
        assert item["bytes"] > 0
        assert (item["single_ms"] is None) == (item["name"] == "onnx")
