"""Converted models in folders of transformers: equal logits, small files, and no fresh weights."""

import pytest
import torch

from benchmarks.conversion import BUT, architectures
from phmrun.errors import PhmrunError
from phmrun.layers import conversion_report, convert, folded, from_pretrained, merge, save_pretrained

pytestmark = pytest.mark.long

transformers = pytest.importorskip("transformers")


def converted(name, structure="phm", **options):
    torch.manual_seed(0)
    options = options or ({"n": 4} if structure == "phm" else {})
    return convert(architectures()[name].build(), structure, but=BUT, **options).eval()


@pytest.mark.parametrize("name", ["GPT-2", "BERT", "Llama", "T5"])
def test_saved_folder_has_equal_logits_and_the_size_of_the_factors(name, tmp_path):
    model, inputs = converted(name), architectures()[name].inputs
    save_pretrained(model, tmp_path)
    loaded = from_pretrained(type(model), tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
    assert [layer.name for layer in conversion_report(loaded).converted] == [
        layer.name for layer in conversion_report(model).converted
    ]
    size = (tmp_path / "model.safetensors").stat().st_size
    assert size < 1.25 * 4 * conversion_report(model).after
    save_pretrained(loaded, tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").stat().st_size == size


@pytest.mark.parametrize(
    ("structure", "options"),
    [
        ("low-rank", {"rank": 4}),
        ("monarch", {}),
        ("hypercomplex", {}),
        ("group-shuffle", {"groups": 4}),
        ("added", {"base": "random", "options": "rank=2"}),
    ],
)
def test_every_kind_of_structure(structure, options, tmp_path):
    model, inputs = converted("GPT-2", structure, **options), architectures()["GPT-2"].inputs
    model.generation_config.max_new_tokens = 7
    save_pretrained(model, tmp_path)
    loaded = from_pretrained(transformers.AutoModelForCausalLM, tmp_path).eval()
    assert loaded.generation_config.max_new_tokens == 7
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
    loaded.train()
    loaded(**inputs, labels=inputs["input_ids"]).loss.backward()
    assert not any(tensor.is_meta for tensor in [*loaded.parameters(), *loaded.buffers()])


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("Llama", "phm and added"),
        ("GPT-2", "added"),
        ("GPT-2", "phm and added"),
        ("Qwen3", "low-rank"),
        ("BERT", "added"),
        ("ModernBERT", "phm"),
    ],
)
@torch.no_grad()
def test_merged_and_folded_models_are_plain_ones_of_transformers(name, structure, tmp_path):
    inputs = architectures()[name].inputs
    options = {"phm": {"n": 4}, "low-rank": {"rank": 4}}.get(structure, {"of": "low-rank", "options": "rank=2"})
    if structure == "phm and added":
        model = convert(converted(name, names="*.1.*", n=4), "added", names="*.0.*", but=BUT, **options)
        plain = folded(merge(model))
    else:
        model = converted(name, structure, **options)
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter) * parameter.requires_grad)
        plain = merge(model) if structure == "added" else folded(model)
        if structure != "added":
            save_pretrained(model, tmp_path / "ours")
            loaded = from_pretrained(type(model), tmp_path / "ours").eval()
            assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
    plain.save_pretrained(tmp_path / "plain")
    assert "phmrun" not in (tmp_path / "plain" / "config.json").read_text()
    loaded, facts = type(model).from_pretrained(tmp_path / "plain", output_loading_info=True)
    assert not any(facts.values())
    assert type(loaded) is type(model)
    logits = [network.eval()(**inputs).logits for network in (model, plain, loaded)]
    assert torch.equal(logits[1], logits[2])
    torch.testing.assert_close(logits[2], logits[0], rtol=1e-5, atol=1e-5 * float(logits[0].abs().max()))
    assert conversion_report(model).converted


def test_another_class_and_another_model_are_refused(tmp_path):
    save_pretrained(converted("GPT-2"), tmp_path)
    with pytest.raises(PhmrunError, match="no layer"):
        from_pretrained(transformers.GPT2Model, tmp_path)
    with pytest.raises(PhmrunError, match="no model of transformers"):
        save_pretrained(torch.nn.Linear(2, 2), tmp_path)
