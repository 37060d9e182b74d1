"""Updates of frozen weights: beside peft's LoRA and explicit sums, in converted models, on disk, and merged."""

import copy

import pytest
import torch
from tied_reader import TOKENS, Reader
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import (
    LSTM,
    Adapter,
    Embedding,
    Linear,
    conversion_report,
    convert,
    folded,
    load,
    merge,
    save,
)
from phmrun.layers.structures.added import Added

KINDS = [("low-rank", "rank=2"), ("kronecker", "rank=2"), ("monarch", ""), ("phm", "n=2"), ("dense", "")]


def stepped(model):
    """Train every adapter of a model for two steps."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        model(TOKENS).pow(2).mean().backward()
        optimizer.step()
    return model


@pytest.mark.parametrize(("of", "options"), KINDS)
def test_update_starts_at_zero_and_is_added(of, options):
    layer = Linear(16, 32, structure="added", of=of, options=options, scale=0.5)
    structure = layer.structure
    assert torch.equal(layer.weight, structure.base)
    assert structure.base.std() == pytest.approx((3 * 16) ** -0.5, rel=0.1)
    for parameter in structure.inside.parameters():
        nn.init.normal_(parameter)
    expected = structure.base + 0.5 * structure.inside.materialize()
    torch.testing.assert_close(layer.weight, expected)
    layer(torch.randn(3, 16)).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize("layers", ["*attn.c_attn", "*.c_fc", ["*.c_attn", "*.c_proj"]])
def test_lora_equals_peft(layers):
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    plain = transformers.GPT2LMHeadModel(config)
    ours = convert(plain, "added", names=layers, of="low-rank", options="rank=4", scale=2.0)
    names = [layer.name for layer in conversion_report(ours).converted]
    settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=names, fan_in_fan_out=True)
    theirs = peft.get_peft_model(copy.deepcopy(plain), settings)
    assert len({sum(p.numel() for p in model.parameters() if p.requires_grad) for model in (ours, theirs)}) == 1
    with torch.no_grad():
        for name in names:
            lora, structure = theirs.get_submodule(f"base_model.model.{name}"), ours.get_submodule(name).structure
            structure.inside.v.copy_(lora.lora_A.default.weight)
    tokens = torch.arange(24).view(2, 12)
    for step in range(3):
        losses = []
        for model in (ours, theirs):
            model.train()
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            parameters = [p for p in model.parameters() if p.requires_grad]
            optimizer = torch.optim.AdamW(parameters, lr=1e-2) if step == 0 else model.optimizer
            model.optimizer = optimizer
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
        assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    with torch.no_grad():
        logits = [model.eval()(input_ids=tokens).logits for model in (ours, theirs)]
    torch.testing.assert_close(*logits, rtol=0, atol=1e-6)
    assert not torch.allclose(logits[0], plain.eval()(input_ids=tokens).logits, atol=1e-2)


@pytest.mark.parametrize(("of", "options"), KINDS)
def test_converted_model_starts_as_it_was_and_trains_the_updates_only(of, options):
    plain = Reader()
    model = convert(plain, "added", of=of, options=options)
    torch.testing.assert_close(model(TOKENS), plain(TOKENS))
    assert convert(nn.Linear(1, 1), "added", of="monarch").structure.inside.right.any()
    assert isinstance(model.lstm, LSTM)
    assert isinstance(model.table, Embedding)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    report = conversion_report(model)
    update = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert (report.trained, report.after) == (update, report.before + update)
    assert f"{update:,} trained" in report.line()
    assert trained == {name for name in dict(model.named_parameters()) if ".inside." in name}
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    stepped(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) is (name not in trained), name


def test_update_that_is_frozen_whole_keeps_the_model_as_it_was():
    model = Reader()
    probed = convert(model, "added", of="low-rank", options="rank=1", freeze="inside.u,inside.v")
    assert torch.equal(probed(TOKENS), model(TOKENS))
    assert not any(parameter.requires_grad for parameter in probed.parameters())
    assert all(layer.after > layer.before for layer in conversion_report(probed).converted)  # W₀ counts, too


def test_merged_model_is_plain_and_computes_the_same():
    model = stepped(convert(Reader().double(), "added", of="phm", options="n=2"))
    merged = merge(model)
    torch.testing.assert_close(merged(TOKENS), model(TOKENS))
    torch.testing.assert_close(folded(model).train()(TOKENS), model(TOKENS))
    assert not any(isinstance(module, Added) for module in merged.modules())
    assert type(merged.block.linear1) is nn.Linear
    assert merged.output.weight is merged.table.weight
    assert merged.training
    assert not any("_phmrun_conversion" in module.__dict__ for module in merged.modules())
    mixed = convert(convert(Reader(), "phm", n=2, names="lstm"), "added", names="block*")
    assert [layer.name for layer in conversion_report(merge(mixed)).converted] == ["lstm"]


def test_random_base_has_the_same_bits_on_every_machine():
    torch.manual_seed(0)
    structure = Linear(64, 64, structure="added", base="random").structure
    assert f"{structure.checksum:016x}" == "6c1d5bb02d5b3b7c"
    assert structure.base.std() == pytest.approx((3 * 64) ** -0.5, rel=0.02)


def test_other_frozen_weights_are_refused():
    layer = Linear(16, 16, structure="added")
    layer.structure.take_over(torch.randn(16, 16))
    other = Linear(16, 16, structure="added")
    other.structure.take_over(torch.randn(16, 16))
    with pytest.raises(PhmrunError, match="W₀ has the checksum"):
        other.load_state_dict(layer.state_dict())


@pytest.mark.parametrize("structure", ["phm", "dense", "low-rank"])
def test_bottleneck_adapter_is_the_identity_at_the_start(structure):
    adapter = Adapter(16, 4, structure=structure)
    inputs = torch.randn(3, 5, 16)
    assert torch.equal(adapter(inputs), inputs)
    adapter(inputs).pow(2).sum().backward()
    assert any(parameter.grad.any() for parameter in adapter.up.parameters())
    for parameter in adapter.parameters():
        nn.init.normal_(parameter)
    hidden = nn.functional.gelu(inputs @ adapter.down.weight.t() + adapter.down.bias)
    torch.testing.assert_close(adapter(inputs), inputs + hidden @ adapter.up.weight.t() + adapter.up.bias)


def test_bottleneck_adapter_of_phm_maps_has_the_count_of_compacter():
    phm = sum(parameter.numel() for parameter in Adapter(64, 16, n=4).parameters())
    assert phm == 2 * (64 * 16 // 4 + 4**3) + 16 + 64


@pytest.mark.parametrize("base", ["frozen", "random"])
def test_file_holds_the_updates_alone(base, tmp_path):
    model = stepped(convert(Reader(), "added", of="low-rank", options="rank=1", base=base)).eval()
    path = save(model, tmp_path / "model.safetensors")
    numbers = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert path.stat().st_size < 4 * numbers + 8_000
    loaded = load(Reader if base == "frozen" else lambda: Reader(7), path).eval()
    assert torch.equal(loaded(TOKENS), model(TOKENS))
    if base == "frozen":
        with pytest.raises(PhmrunError, match=r"other frozen weights|W₀ has the checksum"):
            load(lambda: Reader(7), path)


def test_file_is_refused_by_weights_that_differ_in_one_matrix_or_norm(tmp_path):
    path = save(convert(Reader(), "added", names="block.linear1"), tmp_path / "model.safetensors")

    def changed(change):
        model = Reader()
        with torch.no_grad():
            change(model).add_(1e-3)
        return model

    with pytest.raises(PhmrunError, match="W₀ has the checksum") as caught:
        load(lambda: changed(lambda model: model.block.linear1.weight[3, 4]), path)
    assert str(path) in str(caught.value.where)
    for part in (lambda model: model.block.norm1.bias, lambda model: model.table.weight):
        with pytest.raises(PhmrunError, match="other frozen weights"):
            load(lambda part=part: changed(part), path)
