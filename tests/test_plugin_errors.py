"""Errors and exits of plug-ins: exit code 4 with the plug-in's file and line, and no run that seems to be done."""

import json

import pytest
from forks import completed
from tiny_experiments import write_agreement

LOSS = "from phmrun.registry import LOSSES\ndef mine(logits, targets, **more):\n    {}\nLOSSES.add('mine', mine)\n"
OPTIMIZER = (
    "import collections, torch\nfrom phmrun.registry import OPTIMIZERS\nclass Mine(torch.optim.SGD):\n"
    "    def step(self, closure=None):\n        super().step(closure)\n"
    "        self.param_groups[0]['kept'] = {}\nOPTIMIZERS.add('mine', Mine)\n"
)
MODULE = (
    "import torch\nfrom phmrun.registry import LOSSES\nclass Mine(torch.nn.Module):\n"
    "    def forward(self, logits, targets, **more):\n        return None\nLOSSES.add('mine', Mine())\n"
)
SCHEDULE = "from phmrun.registry import SCHEDULES\ndef mine(settings):\n    return 0.1\nSCHEDULES.add('mine', mine)\n"
CASES = {
    "is a number": (SCHEDULE, "schedule.name=mine", 4, "mine.py:2: mine of the plug-in does not keep"),
    "raises": (LOSS.format("return {}['key']"), "loss=mine", 4, "mine.py:3: the plug-in raises KeyError"),
    "exits": (LOSS.format("raise SystemExit(0)"), "loss=mine", 4, "mine.py:3: the plug-in raises SystemExit"),
    "inherits all but one": (MODULE, "loss=mine", 4, "mine.py:3: Mine of the plug-in does not keep"),
    "returns nothing": (LOSS.format("return None"), "loss=mine", 4, "mine.py:2: mine of the plug-in does not keep"),
    "is no function": (
        LOSS.format("pass").replace("mine)", "'mine')"),
        "loss=mine",
        2,
        "no class or function, but 'mine'",
    ),
    "exits at import": ("import sys\nsys.exit(0)\n", "clip=1", 2, "mine.py:2: the plug-in does not import"),
    "cannot be stored": (OPTIMIZER.format("collections.deque([1])"), "optimizer.name=mine", 4, "0/kept is deque"),
    "cannot be written": (OPTIMIZER.format("lambda: 1"), "optimizer.name=mine", 4, "0/kept is function"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_in_a_plug_in_names_its_line_and_fails_the_run(tmp_path, case):
    source, setting, code, text = CASES[case]
    (tmp_path / "mine.py").write_text(source)
    write_agreement(tmp_path / "own")
    files = [word for split in ("train", "dev", "test") for word in (f"--{split}", f"own/{split}.tsv")]
    settings = (
        "training.schedule.name=constant",
        "training.optimizer.lr=0.01",
        "model.width=16",
        f"training.{setting}",
    )
    chosen = [word for setting in settings for word in ("--set", setting)]
    command = ["train", "sva", "--plugin", "mine.py", *files, *chosen, "--max-steps", "2"]
    done = completed(command, tmp_path, {"PHMRUN_CACHE": str(tmp_path / "cache"), "WANDB_MODE": "disabled"})
    assert done.returncode == code, done.stderr
    assert text in " ".join(done.stderr.split())
    states = [json.loads(path.read_text())["state"] for path in tmp_path.glob("runs/*/status.json")]
    assert states == (["failed"] if code == 4 and "schedule" not in setting else [])  # that is built before the run
