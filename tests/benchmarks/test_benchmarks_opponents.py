"""Opponents of a trained translator: its own weights in Hugging Face's library, and in CTranslate2."""

import sys

import pytest
import torch
from built_networks import built
from tiny_experiments import configured, run_experiment, run_of

from benchmarks import opponents
from benchmarks.systems import Endless, Ours, Sources, decoding
from phmrun.bench.run import opened
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.predictor import Search
from phmrun.models.transformer import Transformer, padding_mask
from phmrun.text.vocabulary import BOS, EOS, PAD

SIZES = {"width": 16, "heads": 2, "feedforward": 24, "encoder_layers": 2, "decoder_layers": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run of a tiny translator with structured maps and pre-norm."""
    folder = tmp_path_factory.mktemp("opponents")
    settings = {"training": {"max_steps": 2}, "layer": {"structure": "phm", "n": 2}, "model": {"norm": "pre"}}
    return run_of(run_experiment(configured("nmt", folder / "corpus", settings), folder / "runs"))


def test_without_the_extra_one_clear_error(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(PhmrunError, match="needs the package transformers"):
        list(opponents.measure(run, ["hf"], [1], 2, 2, 1, "cpu"))


def test_they_decode_in_the_same_rounds_as_ours(run):
    pytest.importorskip("transformers")
    pytest.importorskip("ctranslate2")
    names = ["hf", "ctranslate2", "ctranslate2-int8"]
    rows = list(opponents.measure(run, names, [1, 4], 8, 2, 1, "cpu"))
    assert [(row["search"], row["sentences"]) for row in rows] == [
        ("greedy, batch 1", 2),
        ("beam 5, batch 1", 2),
        ("greedy, batch 4", 8),
        ("beam 5, batch 4", 8),
    ]
    assert all(list(row["rates"]) == ["phmrun", *names] and list(row["ratios"]) == names for row in rows)


def test_the_run_s_own_weights_give_its_logits_in_hugging_face(run):
    pytest.importorskip("transformers")
    from benchmarks.hugging_face import HuggingFace, has_place_for

    section = opened(run)[0].config.model.model_copy(update={"norm": "pre", **SIZES, "upsample": 1, "tie": "all"})
    ours = built(Transformer, 30, 30, **SIZES, bias=True, layer={"structure": "phm", "n": 2}).eval()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    assert has_place_for(ours, section)
    assert not has_place_for(built(Transformer, 9, 9, **SIZES, norm="post"), section)
    theirs = HuggingFace(section, 30, 30, smoothing=0.1, alpha=1.0, device="cpu", weights=ours).model.eval()
    source, target = torch.tensor([[4, 5, 6, EOS], [7, EOS, PAD, PAD]]), torch.tensor([[BOS, 8, 9], [BOS, 10, 11]])
    mask = padding_mask(source, PAD)
    logits = theirs(input_ids=source, attention_mask=source.ne(PAD), decoder_input_ids=target).logits
    torch.testing.assert_close(logits, ours.output(ours(source, mask, target)), atol=1e-5, rtol=1e-5)


class Ending:
    """Wants to end every output at once, and counts the steps that the search makes all the same."""

    def __init__(self, decoder):
        self.start, self.select, self.reorder, self.decoder = decoder.start, decoder.select, decoder.reorder, decoder
        self.steps = 0

    def step(self, tokens, state):
        self.steps += 1
        logits = self.decoder.step(tokens, state)
        logits[..., EOS] = 100.0
        return logits


@pytest.mark.parametrize("beam", [1, 5])
def test_decoding_of_a_given_length_makes_just_so_many_steps(run, beam, monkeypatch):
    ours = Ours(opened(run)[0].module, Search(), "cpu")
    steps = {}
    for exact in (False, True):
        decoder = Ending(ours.decoder(2, beam))
        monkeypatch.setattr(ours, "decoder", lambda batch, beam, decoder=decoder: decoder)
        decoding(ours, [Sources(torch.tensor([[4, 5, EOS], [7, EOS, PAD]]), [7, 7], exact)], beam)()
        steps[exact] = decoder.steps
        monkeypatch.undo()
    assert steps[False] < 7
    assert steps[True] == 7
    assert Endless(ours.decoder(2, beam)).step
