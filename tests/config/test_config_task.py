import subprocess
import sys

from phmrun.config import Experiment, Task


def test_parts_are_imported_on_demand():
    schema = "phmrun.config.experiment:Experiment"
    task = Task("toy", "A toy.", schema, *(f"nowhere:{part}" for part in ("Words", "data", "module", "predictor")))
    assert task.load("schema") is Experiment


def test_the_configuration_needs_no_torch():
    code = "import sys, phmrun.config, phmrun.tasks.nmt.config; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "phmrun.config" in loaded
    assert not {"torch", "numpy", "pytorch_lightning", "wandb"} & set(loaded)
