"""Exported files give the trained model's outputs in the tools that read them."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from random_transformers import network

from phmrun.errors import ExitCode, PhmrunError
from phmrun.exchange import formats
from phmrun.exchange.formats import export, largest_difference
from phmrun.families.sequence_to_sequence.graph import translation_graph
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.ledger.run import Run


@pytest.fixture
def trained(tmp_path):
    """Stand-in for a trained run, around a small untrained network."""
    structured = network(24, layer={"structure": "phm", "n": 4})
    module = SequenceToSequenceModule(structured, None, None, smoothing=0.0)
    return SimpleNamespace(run=Run(tmp_path), load=lambda *_: "best@7", module=module)


def test_safetensors_hold_the_folded_weights_once(trained, tmp_path):
    from safetensors import safe_open

    exported = export(trained, None, "safetensors")
    assert exported.path == tmp_path / "exports" / "model.safetensors"
    assert (list(exported.inputs), exported.outputs) == (["source", "target"], ["logits"])
    with safe_open(exported.path, "pt") as file:
        names, facts = set(file.keys()), file.metadata()
        weight = file.get_tensor("encoder.0.feedforward.block.expand.weight")
    structured = trained.module.network.encoder[0].feedforward.block.expand
    assert torch.equal(weight, structured.weight)
    assert not any("structure" in name for name in names)
    assert facts["run"] == tmp_path.name
    assert facts["weights"] == "best@7"
    assert "output.weight" in json.loads(facts["phmrun"])["tied"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert exported.path.stat().st_mode == plain.stat().st_mode  # as the user's umask has it


@pytest.mark.long
@torch.no_grad()
def test_a_decoder_step_in_onnx_has_no_last_position(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    part = translation_graph(network(24)).parts["decoder"]
    run = formats._write_onnx(part, tmp_path / "decoder.onnx", {}, formats.Format("onnx"))
    steps = []
    for length in (511, 512, 513, 1040):
        tokens, source, *memory, keys, _ = part.examples[0]
        past = torch.randn(*keys.shape[:3], length - 1, keys.shape[4])
        steps.append((tokens, source, *memory, past, past.flip(3)))
    assert largest_difference(replace(part, reference=part.function, examples=steps), run) < 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"layer": {"structure": "phm", "n": 4}, "embedding": {"structure": "define"}, "norm": "post"},
        {"normalization": "rms", "positions": "relative", "attention_maps": "separate", "bias": True, "upsample": 2},
    ],
)
def test_steps_of_the_decoder_end_at_the_networks_own_logits(options):
    parts = translation_graph(network(24, **options)).parts
    assert list(parts) == ["encoder", "decoder"]
    assert [inputs[4].shape[3] for inputs in parts["decoder"].examples] == [4, 0, 8, 20]
    assert largest_difference(parts["decoder"], parts["decoder"].function) < 1e-5
    for part in parts.values():
        assert all(len(inputs) == len(part.inputs) for inputs in part.examples)


def test_a_file_with_other_outputs_is_not_written(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("phmrun.exchange.formats.largest_difference", lambda *_: 0.1)
    with pytest.raises(PhmrunError, match="differ") as caught:
        export(trained, None, "safetensors")
    assert caught.value.code == ExitCode.BUG
    assert not list((tmp_path / "exports").iterdir())


def test_an_output_with_nan_differs_by_infinity():
    program = SimpleNamespace(examples=[(torch.ones(2),)], reference=lambda inputs: inputs)
    assert largest_difference(program, lambda inputs: inputs * torch.nan) == torch.inf
