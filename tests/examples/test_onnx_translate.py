"""The documented beam search over onnxruntime: its outputs are those of our own search, from files alone."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from random_transformers import network

from phmrun.exchange.formats import export
from phmrun.families.sequence_to_sequence.config import DecodingConfig
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.ledger.run import Run
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.text.vocabularies import Vocabularies, train_vocabulary
from phmrun.text.vocabulary import EOS

pytestmark = pytest.mark.long

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

LINES = ["the cat sees a dog .", "", "a dog", "the dog near the old house sees the cat and the cat sees it ."]
NETWORK = {"positions": "relative", "norm": "post", "tie": "none", "output_bias": True}


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "onnx_translate.py"
    specification = importlib.util.spec_from_file_location("onnx_translate", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_it_finds_what_our_search_finds(example, tmp_path):
    vocabulary = train_vocabulary(LINES * 9, kind="bpe", size=30)
    vocabularies = Vocabularies(vocabulary, vocabulary)
    ours = network(len(vocabulary), **NETWORK)
    with torch.no_grad():
        ours.output.bias[EOS] += 1.0
    module = SequenceToSequenceModule(ours, None, None, smoothing=0.0)
    run = Run(tmp_path)
    settings = {"beam": 3, "alpha": 1.0, "penalty": "power", "max_length_ratio": 0.5, "max_length_offset": 2}
    config = TranslationExperiment(decoding=settings)
    trained = SimpleNamespace(run=run, load=lambda *_: "last@1", module=module, vocabulary=vocabularies, config=config)
    exported = export(trained, None, "onnx")
    assert exported.difference < 1e-4
    assert list(exported.parts) == ["encoder", "decoder"]
    assert exported.path == tmp_path / "exports" / "onnx"
    model = example.Model(exported.path)
    of_run = Translator(ours, vocabularies, DecodingConfig(**settings)).translate(LINES)
    assert [model.translate(line) for line in LINES] == of_run
    assert of_run != Translator(ours, vocabularies, DecodingConfig()).translate(LINES)
    for name in ("tokens.json", "phmrun.json"):
        assert json.loads((exported.path / name).read_text())["search"] == settings
    (code,) = re.findall(r"```python\n(.*?)```", (exported.path / "README.md").read_text(), re.DOTALL)
    long = [*LINES, " ".join(["the", "cat", "dog"] * 200)]
    (exported.path / "input.txt").write_text("\n".join(long))
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, cwd=exported.path, capture_output=True, text=True, check=True).stdout
    greedy = Translator(ours, vocabularies, DecodingConfig(**{**settings, "beam": 1})).translate(long)
    assert shown.split("\n")[:-1] == greedy
    assert (
        model.translate(long[-1]) == Translator(ours, vocabularies, DecodingConfig(**settings)).translate(long[-1:])[0]
    )
    for alpha in (0.0, 2.0):
        wanted = Translator(ours, vocabularies, DecodingConfig(**{**settings, "beam": 4, "alpha": alpha})).translate(
            LINES
        )
        assert [model.translate(line, beam=4, alpha=alpha) for line in LINES] == wanted
        assert sum(map(len, wanted)) > 20
