"""Counting and prediction import neither Lightning nor its dependencies."""

import subprocess
import sys

from phmrun.registry import TASKS

TRAINING = {"pytorch_lightning", "lightning_fabric", "torchmetrics", "transformers"}
COMPILER = {"torch._dynamo", "torch.fx.experimental.symbolic_shapes"}


def imported(code):
    """The modules that are there after some code, in a process of its own."""
    code = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


COUNTING = """
from phmrun.cli.app import main
adaptive, guided = ["lm", "--embedding", "adaptive"], ["sva", "--layer", "guided"]
released = ["sva", "--layer", "phm", "--set", "layer.variant=released"]
for arguments in (["nmt"], ["parse"], adaptive, guided, released):
    try:
        main(["count-params", *arguments])
    except SystemExit as end:
        assert not end.code
assert "phmrun.engine.counting" in sys.modules
"""
INFERENCE = """
import torch
from phmrun.layers import LSTM, Biaffine, Embedding, Linear, folded, for_inference
for name in ("dense", "phm", "low-rank", "monarch"):
    module = torch.nn.Sequential(Embedding(8, 8, structure=name), Linear(8, 8, structure=name))
    for copy in (folded(module), for_inference(module, "factored")):
        copy(torch.tensor([1]))
folded(torch.nn.Sequential(LSTM(8, 8), Biaffine(8, 1)))
"""
TRAINED_RUN = f"""
import phmrun.engine.experiment, phmrun.engine.trained_model
from phmrun.registry import TASKS
for task in {[name for name in TASKS.names() if not TASKS.get(name).runner]!r}:
    for part in ("module", "data", "vocabulary", "predictor"):
        TASKS.get(task).load(part)
    found = {TRAINING!r} & sys.modules.keys()
    assert not found, (task, found)
"""


def test_training_alone_brings_lightning():
    absent = f"heavy = {TRAINING | COMPILER!r} & sys.modules.keys()\n"
    parts = {"counting": COUNTING, "inference": INFERENCE, "a trained run": TRAINED_RUN}
    before = "\n".join(f"{code}{absent}assert not heavy, ({name!r}, heavy)" for name, code in parts.items())
    actual = imported(f"{before}\nimport phmrun.engine.fit")
    assert "pytorch_lightning" in actual
    assert not {"matplotlib", "scipy", "transformers"} & actual
