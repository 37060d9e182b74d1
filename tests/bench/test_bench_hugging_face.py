import sys

import pytest
import torch
from built_networks import built
from torch.nn import functional as F

from phmrun.bench.run import bench_run
from phmrun.bench.run_report import Amount
from phmrun.bench.systems import Sources
from phmrun.engine.preparation import build_data
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.text.vocabulary import BOS, EOS, PAD


def marian_of(run, **model):
    pytest.importorskip("transformers")
    from phmrun.bench.hugging_face import HuggingFace  # which loads transformers

    trained = open_run(run)
    sizes = len(trained.vocabulary.source), len(trained.vocabulary.target)
    section = trained.config.model.model_copy(update=model)
    return HuggingFace(section, *sizes, smoothing=0.1, alpha=0.6, device="cpu")


def test_without_the_extra_one_clear_error(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(PhmrunError) as error:
        bench_run(run, against=["hf"])
    assert 'pip install "phmrun[transformers]"' in str(error.value)


def test_as_many_weights_as_our_dense_model(run):
    """Every parameter except attention biases and four norms, which phmrun's network has elsewhere."""
    from phmrun.config import LayerConfig

    marian = marian_of(run)
    trained = open_run(run)
    config = trained.config.model_copy(update={"layer": LayerConfig()})
    from phmrun.tasks.nmt import TASK

    ours = TASK.load("module")(config, *(len(side) for side in (trained.vocabulary.source,) * 2))
    trainable = [parameter for parameter in marian.network.parameters() if parameter.requires_grad]
    matrices = sum(parameter.numel() for parameter in trainable if parameter.dim() == 2)
    assert matrices == sum(parameter.numel() for parameter in ours.parameters() if parameter.dim() == 2)


@pytest.mark.parametrize("beam", [1, 3])
def test_decodes_just_so_many_tokens(run, beam):
    marian = marian_of(run)
    with torch.inference_mode():
        outputs = marian.decode(Sources(torch.tensor([[4, 5, 3], [6, 3, 0]]), [7, 7], True), beam)
    assert outputs.shape == (2, 1 + 7)
    assert (outputs[:, 0] == BOS).all()
    assert not (outputs[:, 1:-1] == EOS).any()
    assert not (outputs == PAD).any()


def test_the_loss_is_label_smoothed_cross_entropy_over_target_tokens(run):
    marian = marian_of(run)
    data = build_data(open_run(run).config)
    batch = next(iter(data.train_dataloader()))
    marian.network.eval()
    logits = marian.network(
        input_ids=batch.source, attention_mask=batch.source.ne(PAD), decoder_input_ids=batch.target
    ).logits
    picked = logits.flatten(0, 1)[batch.positions]
    expected = F.cross_entropy(picked, batch.wanted, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(marian.loss(batch), expected)


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_every_parameter_is_trained(run, tie):
    marian = marian_of(run, tie=tie)
    batch = next(iter(build_data(open_run(run).config).train_dataloader()))
    marian.loss(batch).backward()
    missing = [name for name, first in marian.network.named_parameters() if first.requires_grad and first.grad is None]
    assert missing == []
    tied = marian.model.get_output_embeddings().weight is marian.model.model.decoder.embed_tokens.weight
    assert tied == (tie != "none")


@pytest.mark.parametrize("bias", [True, False])
def test_the_run_s_own_weights_give_its_logits(run, bias):
    pytest.importorskip("transformers")
    from phmrun.bench.hugging_face import HuggingFace, has_place_for
    from phmrun.models.transformer import Transformer, padding_mask

    changes = {"norm": "pre", "width": 16, "heads": 2, "feedforward": 24, "encoder_layers": 2, "decoder_layers": 1}
    section = open_run(run).config.model.model_copy(update={**changes, "upsample": 1, "tie": "all"})
    sizes = {"width": 16, "heads": 2, "feedforward": 24, "encoder_layers": 2, "decoder_layers": 1}
    ours = built(Transformer, 30, 30, **sizes, bias=bias, layer={"structure": "phm", "n": 2}).eval()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    assert has_place_for(ours, section)
    theirs = HuggingFace(section, 30, 30, smoothing=0.1, alpha=1.0, device="cpu", weights=ours).model.eval()
    source, target = torch.tensor([[4, 5, 6, EOS], [7, EOS, PAD, PAD]]), torch.tensor([[BOS, 8, 9], [BOS, 10, 11]])
    mask = padding_mask(source, PAD)
    logits = theirs(input_ids=source, attention_mask=source.ne(PAD), decoder_input_ids=target).logits
    torch.testing.assert_close(logits, ours.output(ours(source, mask, target)), atol=1e-5, rtol=1e-5)


def test_other_forms_have_no_place_for_the_weights(run):
    pytest.importorskip("transformers")
    from phmrun.bench.hugging_face import has_place_for
    from phmrun.models.transformer import Transformer

    section = open_run(run).config.model
    sizes = {"width": 8, "heads": 2, "feedforward": 8, "encoder_layers": 1, "decoder_layers": 1}
    for form in ({"norm": "post"}, {"positions": "relative"}, {"normalization": "rms"}):
        assert not has_place_for(built(Transformer, 9, 9, **sizes, **form), section)


def test_in_the_same_rounds_as_ours(run):
    pytest.importorskip("transformers")
    report = bench_run(run, against=["hf", "dense"], amount=Amount(1, 2, sentences=64, single=1))
    for phase in report.phases:
        assert list(phase.timings) == ["run", "hf", "dense"]
        assert list(phase.ratios) == ["hf", "dense"]
