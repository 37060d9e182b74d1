"""Converted models against the networks that they were made from: probabilities of given outputs, whole searches."""

import json
import re
import subprocess
import sys

import pytest
import torch
from random_transformers import network

from phmrun.exchange.ctranslate2 import converted
from phmrun.exchange.pages import ctranslate2_page
from phmrun.families.sequence_to_sequence.config import DecodingConfig
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.text.token_names import token_names
from phmrun.text.vocabularies import Vocabularies, train_vocabulary
from phmrun.text.vocabulary import BOS, EOS

pytestmark = pytest.mark.long

ctranslate2 = pytest.importorskip("ctranslate2")

NETWORKS = {
    "pre-norm": {},
    "phm": {"layer": {"structure": "phm", "n": 4}, "embedding": {"structure": "phm", "n": 4}},
    "low rank": {"layer": {"structure": "low-rank", "rank": 3}},
    "post-norm": {"norm": "post"},
    "untied, with biases": {"attention_maps": "separate", "bias": True, "tie": "none", "output_bias": True},
    "upsampled": {"upsample": 2},
    "T5": {"normalization": "rms", "positions": "relative", "feedforward_bias": False, "attention_maps": "separate"},
    "relative, post-norm, upsampled": {"positions": "relative", "upsample": 2, "norm": "post"},
    "DeFINE": {"embedding": {"structure": "define"}},
}


@pytest.mark.parametrize("name", NETWORKS)
@torch.no_grad()
def test_the_engine_gives_the_same_probabilities(name, vocabularies, tmp_path):
    size = len(vocabularies.source)
    ours = network(size, **NETWORKS[name])
    engine = ctranslate2.Translator(str(converted(ours, vocabularies, tmp_path / "model")))
    names = token_names(vocabularies.source)
    generator = torch.Generator().manual_seed(2)
    sources = [torch.randint(EOS + 1, size, (length,), generator=generator).tolist() for length in (1, 5, 9)]
    outputs = [torch.randint(EOS + 1, size, (length,), generator=generator).tolist() for length in (4, 1, 21)]
    actual = engine.score_batch(
        [[names[token] for token in source] for source in sources],
        [[names[token] for token in output] for output in outputs],
    )
    for source, output, result in zip(sources, outputs, actual, strict=True):
        hidden = ours(torch.tensor([[*source, EOS]]), None, torch.tensor([[BOS, *output]]))
        chances = torch.log_softmax(ours.output(hidden)[0], dim=-1)
        wanted = chances.gather(1, torch.tensor([*output, EOS]).unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(torch.tensor(result.log_probs), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("beam", "nbest"), [(1, 1), (4, 3)])
def test_the_search_of_the_engine_is_ours_with_its_penalty(beam, nbest, vocabularies, lines, tmp_path):
    ours = network(len(vocabularies.source), tie="none", output_bias=True)
    settings = {"beam": beam, "nbest": nbest, "alpha": 0.7, "batch": 5, "max_length_offset": 40}
    wanted = Translator(ours, vocabularies, DecodingConfig(penalty="power", **settings)).hypotheses(lines)
    engine = Translator(ours, vocabularies, DecodingConfig(engine="ctranslate2", **settings), exports=tmp_path)
    actual = engine.hypotheses(lines)
    ended = [(a, b) for a, b in zip(wanted, actual, strict=True) if all(len(best.tokens) < 40 for best in (*a, *b))]
    assert len(ended) >= 10  # at its limit, the engine cuts an output off
    assert max(len(best[0].tokens) for best, _ in ended) > 6
    for right, output in ended:
        assert [best.tokens for best in output] == [best.tokens for best in right]
        assert [best.log_prob for best in output] == pytest.approx([best.log_prob for best in right], abs=1e-4)
        assert [best.score for best in output] == pytest.approx([best.score for best in right], abs=1e-4)
    assert f"engine:ctranslate2-{ctranslate2.__version__}|arithmetic:float32" in engine.signature
    assert "penalty:power" in engine.signature


@pytest.mark.parametrize("options", [{}, {"positions": "relative"}])
def test_lines_beyond_the_table_of_positions_are_translated_by_torch(options, vocabularies, tmp_path, caplog):
    ours = network(len(vocabularies.source), tie="none", output_bias=True, **options)
    lines = ["w1 w2", *(" ".join(["w1", "w2", "w3"] * 400).split(" ", length)[:-1] for length in (1022, 1023, 1024))]
    lines = ["w1 w2", *(" ".join(line) for line in lines[1:]), "", "w4"]
    settings = {"beam": 2, "max_length_ratio": 0.01}
    wanted = Translator(ours, vocabularies, DecodingConfig(penalty="power", **settings)).translate(lines)
    engine = Translator(ours, vocabularies, DecodingConfig(engine="ctranslate2", **settings), exports=tmp_path)
    assert engine.translate(lines) == wanted
    assert [answer.text for answer in engine.predict(lines)] == wanted
    named = "longer than the 1024 tokens of CTranslate2, translated by torch: line 4"
    assert caplog.messages == ([] if options else [named] * 2)
    assert engine.decoder.longest == (None if options else 1024)
    engine.network = None
    assert engine.translate(lines) == [*wanted[:3], wanted[3] if options else "", *wanted[4:]]


def test_a_model_is_converted_once_and_again_when_the_weights_change(vocabularies, tmp_path):
    ours = network(len(vocabularies.source))
    path = converted(ours, vocabularies, tmp_path / "model", "int8", run="r")
    created = (path / "model.bin").stat().st_mtime_ns
    assert converted(ours, vocabularies, path, "int8", run="r") == path
    assert (path / "model.bin").stat().st_mtime_ns == created
    with torch.no_grad():
        next(ours.parameters()).add_(1.0)
    converted(ours, vocabularies, path, "int8", run="r")
    assert (path / "model.bin").stat().st_mtime_ns != created
    assert json.loads((path / "phmrun.json").read_text())["quantization"] == "int8"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_the_code_on_the_page_translates(tmp_path):
    text = [f"the cat number {number} sees a dog ." for number in range(40)]
    vocabulary = train_vocabulary(text, kind="bpe", size=60)
    both = Vocabularies(vocabulary, vocabulary)
    ours = network(len(vocabulary), tie="none", output_bias=True)
    with torch.no_grad():
        ours.output.bias[EOS] -= 0.5
    path = converted(ours, both, tmp_path / "model")
    long = " ".join(text[:12] * 30)
    (path / "input.txt").write_text("\n".join([*text[:8], long]), encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", ctranslate2_page(both, beam=3, alpha=1.0), re.DOTALL)
    shown = subprocess.run([sys.executable, "-c", code], cwd=path, capture_output=True, text=True, check=True).stdout
    search = DecodingConfig(beam=3, alpha=1.0, penalty="power", max_length_ratio=1.0, max_length_offset=240)
    wanted = Translator(ours, both, search).translate(text[:8])
    pairs = [(line, text) for line, text in zip(shown.split("\n"), wanted, strict=False) if len(text) < 100]
    assert len(pairs) > 1
    assert any(text for _, text in pairs)
    assert all(line == text for line, text in pairs)
