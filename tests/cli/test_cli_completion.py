import os
import subprocess
import sys

import pytest

from phmrun.cli import completion
from phmrun.config import LayerConfig
from phmrun.engine.counting import count_parameters
from phmrun.errors import PhmrunError
from phmrun.experiments import resolve_request
from phmrun.ledger import Run
from phmrun.papers import paper_names
from phmrun.registry import TASKS


class Context:
    def __init__(self, **params):
        self.params = params
        self.args = []


def test_completion_lists_registered_names():
    assert "nmt" in completion.tasks("n")
    assert completion.layers(Context(), "ph") == ["phm"]
    assert completion.export_formats("o") == ["onnx"]
    assert {"builtin", "multi30k"} <= set(completion.datasets(Context(), ""))
    assert "configs/tasks/nmt.yaml" in completion.configs("configs/")
    assert completion.tasks("zzz") == []


def test_papers_are_completed_from_file_names():
    code = "import sys; from phmrun.cli import completion; print(completion.papers('')); print('yaml' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [str([*paper_names(), "all"]), "False"]


def test_what_fits_the_task_that_has_been_typed():
    parse = completion.datasets(Context(task="parse"), "")
    assert "builtin" in parse
    assert "multi30k" not in parse
    assert completion.presets(Context(task="nmt"), "b") == ["base"]
    assert completion.networks(Context(task="nmt"), "") == ["delight", "transformer"]
    assert completion.networks(Context(task="parse"), "") == ["biaffine"]
    assert "lstm" in completion.networks(Context(task="sva"), "")
    assert "training.optimizer.lr=" in completion.keys(Context(task="nmt"), "training.opt")
    assert completion.keys(Context(), "") == []


@pytest.mark.parametrize("task", TASKS.names())
def test_layers_are_offered_where_they_can_be_built(task):
    config = resolve_request(task, []).resolved.config
    for name in completion.SQUARE:
        layer = LayerConfig(structure=name)
        try:
            count_parameters(config.model_copy(update={"layer": layer}))
        except PhmrunError:
            assert name not in completion.layers(Context(task=task), "")
        else:
            assert name in completion.layers(Context(task=task), "")


def test_columns_to_sort_by(run_dir):
    context = Context(runs_dir=run_dir.parent)
    assert "parameters" in completion.columns(context, "par")
    assert "-updated" in completion.columns(context, "-u")
    assert Run(run_dir).metrics().keys() <= {*completion.columns(context, "")}


def test_run_ids(run_dir, monkeypatch, tmp_path):
    monkeypatch.delenv("PHMRUN_RUNS", raising=False)
    (run_dir.parent / "README.md").write_text("no run\n")
    assert completion.runs(Context(runs_dir=run_dir.parent), "nmt-") == [run_dir.name]
    assert completion.runs(Context(runs_dir=tmp_path / "none"), "") == []
    monkeypatch.setenv("PHMRUN_RUNS", str(run_dir.parent))
    assert completion.runs(Context(), "") == [run_dir.name]


ANSWERS = {
    "phmrun train n": "nmt", "phmrun train nmt --preset b": "base", "phmrun train nmt --set model.w": "model.width=",
    "phmrun train nmt --layer p": "phm", "phmrun train nmt --data m": "multi30k", "phmrun layers show d": "dense",
    "phmrun schema ": "nmt", "phmrun eval nmt-b": "nmt-builtin-phm-7", "phmrun predict ": "nmt-builtin-phm-7",
    "phmrun co": "count-params",
}  # fmt: skip
ASK = """
import os, sys
from phmrun.cli.app import main
for words in sys.argv[1:]:
    os.environ.update(COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    try:
        main([])
    except SystemExit:
        print("\\0", flush=True)
print("torch" in sys.modules, file=sys.stderr)
"""


def test_the_shell_is_answered(run_dir):
    environment = {**os.environ, "_PHMRUN_COMPLETE": "complete_bash", "PHMRUN_RUNS": str(run_dir.parent)}
    command = [sys.executable, "-c", ASK, *ANSWERS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == "False\n"
    for (words, expected), answer in zip(ANSWERS.items(), done.stdout.split("\0"), strict=False):
        assert expected in answer, words


def test_no_name_is_offered_twice():
    names = completion.datasets(Context(), "")
    assert len(names) == len(set(names))
