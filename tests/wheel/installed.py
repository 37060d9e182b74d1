"""Commands of the README in an environment that has the built wheel and its core dependencies only.

Run by ``make wheel``, which makes the environment ``build/empty``.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from tiny_experiments import SETTINGS

PHMRUN = Path(__file__).parents[2] / "build" / "empty" / "bin" / "phmrun"
SHORT = {"training": {"max_steps": 2, "max_epochs": None, "validate_every": 2, "checkpoint_every": 2}}
LAYERS = {"dense": ("--layer", "dense"), "phm": ("--layer", "phm", "--n", "8")}


def phmrun(folder: Path, *arguments: str, text: str | None = None) -> str:
    """Standard output of the installed command, which finds nothing of the checkout."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PHMRUN"))}
    environment |= {"PHMRUN_CACHE": str(folder / "cache"), "WANDB_MODE": "disabled"}
    done = subprocess.run(
        [PHMRUN, *arguments], cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_config(task: str, folder: Path) -> Path:
    """Tiny experiment of a task as a file, with its corpus beside it."""
    settings = SETTINGS[task](folder / "corpus")
    settings["training"] = {**settings.get("training", {}), **SHORT["training"]}
    path = folder / f"{task}.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("task", sorted(SETTINGS))
def test_every_task_is_trained_and_scored_again(task, layer, tmp_path):
    config = write_config(task, tmp_path)
    trained = json.loads(phmrun(tmp_path, "train", task, "--config", str(config), *LAYERS[layer], "--json"))
    again = json.loads(phmrun(tmp_path, "eval", "latest", "--json"))
    assert again["run_id"] == trained["run_id"]
    for name, score in again["metrics"].items():
        assert "per_second" in name or score["value"] == trained["metrics"][name]["value"]


def test_the_built_in_corpus_is_translated(tmp_path):
    short = ("--max-steps", "2", "--set", "decoding.beam=1", "--set", "decoding.max_length_ratio=0.2")
    phmrun(tmp_path, "train", "nmt", "--layer", "phm", "--n", "8", "--preset", "tiny", *short)
    assert len(phmrun(tmp_path, "predict", "latest", text="The child sees the old dog.\n").splitlines()) == 1


def test_a_sweep_runs_its_cells_and_makes_a_table(tmp_path):
    base = yaml.safe_load(write_config("sva", tmp_path).read_text(encoding="utf-8"))
    grid = {"layer": ["dense", {"structure": "phm", "n": 8}]}
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(yaml.safe_dump({"task": "sva", "base": base, "grid": grid, "seeds": 1}), encoding="utf-8")
    phmrun(tmp_path, "sweep", str(sweep))
    cells = json.loads(phmrun(tmp_path, "table", str(sweep), "--json"))["cells"]
    assert len(cells) == 2
    assert all(cell["seeds"] for cell in cells)


def test_parameters_are_counted(tmp_path):
    counts = json.loads(phmrun(tmp_path, "count-params", "nmt", "--layer", "phm", "--n", "8", "--json"))
    assert counts["total"] < counts["dense_total"]
