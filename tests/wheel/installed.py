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

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "empty" / "bin" / "python"
SHORT = {"training": {"max_steps": 2, "max_epochs": None, "validate_every": 2, "checkpoint_every": 2}}
LAYERS = {"dense": ("--layer", "dense"), "phm": ("--layer", "phm", "--n", "8")}


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """Process of the environment that runs its commands; it finds nothing of the checkout."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PHMRUN"))}
    environment |= {"PYTHONPATH": str(ROOT / "tests" / "support"), "WANDB_MODE": "disabled", "OMP_NUM_THREADS": "1"}
    command = [PYTHON, ROOT / "tests" / "wheel" / "served.py"]
    folder = tmp_path_factory.mktemp("served")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, env=environment, **pipes) as process:
        yield process


@pytest.fixture
def phmrun(served, tmp_path):
    """Standard output of a command of the installed phmrun, run in ``tmp_path``."""

    def run(*arguments: str) -> str:
        served.stdin.write(json.dumps([str(tmp_path), arguments]) + "\n")
        served.stdin.flush()
        code, out, err = json.loads(served.stdout.readline())
        assert code == 0, err
        return out

    return run


def write_config(task: str, folder: Path) -> Path:
    """Tiny experiment of a task as a file, with its corpus beside it."""
    settings = SETTINGS[task](folder / "corpus")
    settings["training"] = {**settings.get("training", {}), **SHORT["training"]}
    path = folder / f"{task}.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("task", sorted(SETTINGS))
def test_every_task_is_trained_and_scored_again(task, layer, phmrun, tmp_path):
    config = write_config(task, tmp_path)
    trained = json.loads(phmrun("train", task, "--config", str(config), *LAYERS[layer], "--json"))
    again = json.loads(phmrun("eval", "latest", "--json"))
    assert again["run_id"] == trained["run_id"]
    for name, score in again["metrics"].items():
        assert "per_second" in name or score["value"] == trained["metrics"][name]["value"]


def test_the_built_in_corpus_is_translated(phmrun, tmp_path):
    short = ("--max-steps", "2", "--set", "decoding.beam=1", "--set", "decoding.max_length_ratio=0.2")
    phmrun("train", "nmt", "--layer", "phm", "--n", "8", "--preset", "tiny", *short)
    (tmp_path / "lines.txt").write_text("The child sees the old dog.\n", encoding="utf-8")
    assert len(phmrun("predict", "latest", "lines.txt").splitlines()) == 1


def test_a_sweep_runs_its_cells_and_makes_a_table(phmrun, tmp_path):
    base = yaml.safe_load(write_config("sva", tmp_path).read_text(encoding="utf-8"))
    grid = {"layer": ["dense", {"structure": "phm", "n": 8}]}
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(yaml.safe_dump({"task": "sva", "base": base, "grid": grid, "seeds": 1}), encoding="utf-8")
    phmrun("sweep", str(sweep))
    cells = json.loads(phmrun("table", str(sweep), "--json"))["cells"]
    assert {(cell["layer"], cell["column"]) for cell in cells} == {
        (layer, column) for layer in ("dense", "phm n=8") for column in ("test/accuracy", "test/loss")
    }
    assert all(cell["seeds"] for cell in cells)


def test_parameters_are_counted(phmrun):
    counts = json.loads(phmrun("count-params", "nmt", "--layer", "phm", "--n", "8", "--json"))
    assert counts["total"] < counts["dense_total"]
