import os
import subprocess
import sys

from phmrun.cli import completion


class Context:
    info_name = "sweep"

    def __init__(self, **params):
        self.params = params
        self.args = []


def test_what_fits_the_task_that_has_been_typed():
    parse = completion.datasets(Context(task="parse"))
    assert "builtin" in parse
    assert "multi30k" not in parse
    assert "training.optimizer.lr=" in completion.keys(Context(task="nmt"))
    assert completion.keys(Context()) == []
    assert {name.split("/")[1] for name in completion.configs(Context())} == {"papers", "sweeps"}


ANSWERS = {
    "phmrun train n": "nmt", "phmrun train nmt --set model.w": "model.width=",
    "phmrun train nmt --layer p": "phm", "phmrun train nmt --data m": "multi30k", "phmrun layers d": "dense",
    "phmrun schema ": "nmt", "phmrun eval nmt-b": "nmt-builtin-phm-7", "phmrun predict ": "nmt-builtin-phm-7",
    "phmrun co": "count-params", "phmrun train lm --preset l": "llama-1m",
    "phmrun sweep configs/s": "configs/sweeps/linzen-rates.yaml",
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
