"""What only counts or uses a network does without Lightning, and without what Lightning brings along."""

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


def test_counting_parameters():
    code = (
        "from phmrun.cli.app import main\n"
        "try:\n    main(['count-params', 'nmt'])\n"
        "except SystemExit as end:\n    assert not end.code"
    )
    found = imported(code)
    assert "phmrun.engine.counting" in found
    assert not (TRAINING | COMPILER) & found


def test_training_is_what_brings_lightning():
    found = imported("import phmrun.engine.fit")
    assert "pytorch_lightning" in found
    assert not {"matplotlib", "scipy", "transformers"} & found


def test_all_that_a_trained_run_needs():
    tasks = ["lm", "nli", "nmt", "parse", "style", "sva"]
    assert set(tasks) <= set(TASKS.names())
    code = (
        "import phmrun.engine.experiment, phmrun.engine.trained_model\n"
        "from phmrun.registry import TASKS\n"
        f"for task in {tasks!r}:\n"
        "    for part in ('module', 'data', 'vocabulary', 'predictor'):\n"
        "        TASKS.get(task).load(part)\n"
        f"    found = {TRAINING!r} & sys.modules.keys()\n"
        "    assert not found, (task, found)\n"
    )
    assert not COMPILER & imported(code)


def test_models_are_laid_out_for_inference_without_the_compiler():
    code = (
        "import torch\n"
        "from phmrun.layers import LSTM, Biaffine, Embedding, Linear, folded, for_inference\n"
        "for name in ('dense', 'phm', 'low-rank', 'monarch'):\n"
        "    module = torch.nn.Sequential(Embedding(8, 8, structure=name), Linear(8, 8, structure=name))\n"
        "    for copy in (folded(module), for_inference(module, 'factored')):\n"
        "        copy(torch.tensor([1]))\n"
        "folded(torch.nn.Sequential(LSTM(8, 8), Biaffine(8, 1)))"
    )
    assert not (TRAINING | COMPILER) & imported(code)
