"""The recipes of CONTRIBUTING.md, followed in a copy of the source tree: each edits the files that it names alone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_experiments import write_agreement, write_corpus

ROOT = Path(__file__).parents[1]

STRUCTURE = '''"""Diagonal: W is zero beside its main diagonal.

Formula:        W[i, i] = a[i]
Parameters:     min(k, d)
Initialisation: normal, with the variance of a dense layer's entries
Source:         an example
"""

import torch
from torch import Tensor, nn

from phmrun.layers.structure import Structure, register


@register("diagonal")
class Diagonal(Structure):
    """W[i, i] = a[i]."""

    formula = "W[i, i] = a[i]"
    source = "an example"

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__(out_features, in_features)
        self.a = nn.Parameter(torch.empty(min(out_features, in_features)))

    @classmethod
    def check(cls, out_features: int, in_features: int) -> str | None:
        return None

    def reset_parameters(self, std: float) -> None:
        nn.init.normal_(self.a, std=std)

    def materialize(self) -> Tensor:
        return nn.functional.pad(
            torch.diag(self.a), (0, self.in_features - len(self.a), 0, self.out_features - len(self.a))
        )
'''

DATASET = """
made-up:
  tasks: [nmt]
  summary: a made-up language pair
  licence: none
  homepage: https://example.org
  citation: none
  format: parallel
  mirrors: ["https://example.org/made-up"]
  splits:
    train: {aa: {path: train.aa}, bb: {path: train.bb}}
    dev: {aa: {path: dev.aa}, bb: {path: dev.bb}}
    test: {aa: {path: test.aa}, bb: {path: test.bb}}
"""

MODEL = '''"""A bag of words: the mean of their vectors, and one map to the classes."""

from typing import Any

from torch import Tensor, nn

from phmrun.layers import Embedding, Linear
from phmrun.models.sentences import Sentences, pooled


class BagOfWords(nn.Module):
    """Logits of the classes."""

    def __init__(self, words: int, classes: int, width: int, *, layer: Any, embedding: Any, output: Any) -> None:
        super().__init__()
        self.embedding = Embedding(words, width, **embedding)
        self.map = Linear(width, width, **layer)
        self.output = Linear(width, classes, **output)

    def forward(self, sentences: Sentences) -> Tensor:
        """``[batch, classes]``."""
        return self.output(self.map(pooled(self.embedding(sentences.tokens), sentences.lengths, "mean")))


def build(config: Any, words: int, classes: int) -> BagOfWords:
    """As the config says."""
    return BagOfWords(words, classes, config.model.width, **config.structures)
'''

METRIC = '''

def length_ratio(outputs: Sequence[str], references: Sequence[str]) -> Score:
    """Words of the outputs in parts of the references' words."""
    words = [sum(len(line.split()) for line in side) for side in (outputs, references)]
    return Score("length ratio", words[0] / words[1], "words:white-space", len(outputs))
'''


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the source, all recipes followed; what was added or changed is in ``edits``."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("phmrun", "tasks", "configs"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "phmrun/layers/structures/diagonal.py").write_text(STRUCTURE)
    (tree / "phmrun/datasets/entries/made_up.yaml").write_text(DATASET)
    metrics = tree / "phmrun/metrics/translation.py"
    metrics.write_text(metrics.read_text() + METRIC)
    predictor = tree / "phmrun/families/sequence_to_sequence/predictor.py"
    text = predictor.read_text()
    changed = text.replace('"chrf": chrf}', '"chrf": chrf, "length-ratio": length_ratio}', 1)
    assert changed != text
    predictor.write_text(
        changed.replace("\nMeasure =", "from phmrun.metrics.translation import length_ratio\n\nMeasure =", 1)
    )
    shutil.copytree(tree / "tasks/sva", tree / "tasks/mood")
    for path in (tree / "tasks/mood").glob("*.py"):
        path.write_text(path.read_text().replace("tasks.sva", "tasks.mood").replace('"sva"', '"mood"'))
    (tree / "tasks/mood/bag.py").write_text(MODEL)
    config = tree / "tasks/mood/config.py"
    text = config.read_text()
    changed = text.replace('Literal["transformer", ', 'Literal["bag", "transformer", ', 1)
    changed = changed.replace("NETWORKS = {", 'NETWORKS = {"bag": "phmrun.tasks.mood.bag:build", ', 1)
    assert len(changed) > len(text) + 40
    config.write_text(changed)
    described = tree / "recipes-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: recipes\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(
        "[phmrun.structures]\ndiagonal = phmrun.layers.structures.diagonal:Diagonal\n"
        "[phmrun.tasks]\nmood = phmrun.tasks.mood:TASK\n"
    )
    write_corpus(tree / "data/made-up")
    write_agreement(tree / "items")
    return tree


def phmrun(tree, *commands):
    """Several commands in one process; the last lines of each, as JSON."""
    code = (
        "import contextlib, io, json, sys\n"
        "from phmrun.cli.app import main\n"
        "found = []\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    out = io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):\n"
        "        main(command)\n"
        "    found.append(out.getvalue())\n"
        "print(json.dumps(found))\n"
    )
    surroundings = {**os.environ, "PYTHONPATH": str(tree), "PHMRUN_DATA": str(tree / "data"), "WANDB_MODE": "disabled"}
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=tree,
        env=surroundings,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    actual = json.loads(done.stdout.splitlines()[-1])
    assert all(actual), done.stderr
    return actual


def test_the_recipes_work_as_they_are_written(tree):
    small = ["--set", "model.width=32", "--max-steps", "2", "--json", "--set", "model.feedforward=32"]
    words = [
        "--source",
        "aa",
        "--target",
        "bb",
        "--set",
        "data.vocabulary.kind=word",
        "--set",
        "data.vocabulary.size=200",
    ]
    items = [f"--{split}={tree}/items/{split}.tsv" for split in ("train", "dev", "test")]
    shown, translated, task, formats = phmrun(
        tree,
        ["layers", "show", "diagonal"],
        ["train", "nmt", "--data", "made-up", *words, "--layer", "diagonal", *small],
        ["train", "mood", "--model", "bag", *items, *small],
        ["data", "formats", "mood", "--json"],
    )
    assert [load["name"] for load in json.loads(formats)] == ["lines", "table"]
    assert "W[i, i] = a[i]" in shown
    result = json.loads(translated)
    assert "made-up-diagonal" in result["run_id"]
    assert result["metrics"]["test/length-ratio"]["value"] > 0
    assert json.loads(task)["run_id"].startswith("mood-files-dense-1")
    (run,) = (tree / "runs").glob("mood-*")
    assert "network: bag" in (run / "config.yaml").read_text()
