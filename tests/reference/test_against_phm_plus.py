"""PHM+ and its search compute what the released notebook computes, in float64.

The notebook interleaves sines and cosines of positions; ours stand one after the other, so they are reordered here.
"""

import pytest
import torch
from recording import default_double, largest_difference, part, recorded

from phmrun.decoding.search import max_length
from phmrun.decoding.stepwise import stepwise_search
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.options import TransformerOptions
from phmrun.models.transformer import Transformer, padding_mask
from phmrun.text.vocabulary import BOS, EOS, PAD

OPTIONS = {
    **{"width": 8, "feedforward": 16, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, "norm": "post"},
    **{"positions": "sinusoidal-vaswani", "attention_maps": "joint", "bias": True, "output_bias": True},
    **{"tie": "none", "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "start": "glorot"},
}
PLACES = ("layer", "embedding", "output")


@pytest.fixture(scope="module")
def numbers():
    return recorded("phm-plus")


def build(structure=None):
    return Transformer(TransformerOptions(**OPTIONS), (12, 12), dict.fromkeys(PLACES, structure or {}))


def network(numbers):
    with default_double():
        model = build({"structure": "phm", "n": 2}).double()
        model.load_state_dict(part(numbers, "before/"))
        interleaved = torch.arange(8).view(2, 4).t().flatten()
        model.positions.table = model.positions.table.double()[:, interleaved]
    return model


def test_logits_gradient_and_a_step_are_those_of_the_notebook(numbers):
    with default_double():
        model, source, target = network(numbers), numbers["source"], numbers["target"]
        logits = model.output(model(source, padding_mask(source, PAD), target[:, :-1]))
        real = target[:, 1:] != PAD
        torch.testing.assert_close(logits[real], numbers["logits"][real], atol=1e-12, rtol=0)
        loss = torch.nn.functional.cross_entropy(logits[real], target[:, 1:][real])
        torch.testing.assert_close(loss, numbers["loss"], atol=1e-12, rtol=0)
        loss.backward()
        gradients = {name: value.grad for name, value in model.named_parameters()}
        assert largest_difference(gradients, part(numbers, "gradient/")) < 1e-12
        options = {"lr": 0.0001, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.05}
        torch.optim.AdamW(model.parameters(), **options).step()
        assert largest_difference(dict(model.named_parameters()), part(numbers, "after/")) < 1e-10


def test_outputs_of_the_search_are_those_of_the_notebook(numbers):
    """Alone and as a batch; its longest output has the source's tokens, its end and five more."""
    with default_double(), torch.inference_mode():
        model = network(numbers).eval()
        sources = [numbers[f"search/{number}/source"].tolist() for number in range(3)]
        wanted = [[t for t in numbers[f"search/{n}/output"].tolist() if t not in (BOS, EOS)] for n in range(3)]
        limits = [max_length(len(source), 1.0, 5) for source in sources]
        longest = max(map(len, sources))
        batch = torch.tensor([source + [PAD] * (longest - len(source)) for source in sources])
        settings = {"beam": 3, "alpha": 0.6}
        decoder = IncrementalTransformer(model, PAD, "dense", "dense")
        actual = stepwise_search(decoder, batch, **settings, max_lengths=limits)
        assert [best[0].tokens for best in actual] == wanted
        for source, limit, output in zip(sources, limits, wanted, strict=True):
            alone = stepwise_search(decoder, torch.tensor([source]), **settings, max_lengths=[limit])
            assert alone[0][0].tokens == output


@pytest.mark.parametrize("structure", [{}, {"structure": "phm", "n": 4}])
def test_all_matrices_and_factors_begin_with_glorots_distribution(structure):
    torch.manual_seed(1)
    for name, parameter in build(structure).named_parameters():
        if parameter.dim() > 1:
            bound = float(parameter.detach().abs().max())
            fan_in = parameter[0].numel() if parameter.dim() == 2 else parameter[0][0].numel() * parameter.shape[1]
            fan_out = parameter.shape[0] * parameter[0][0].numel() if parameter.dim() > 2 else parameter.shape[0]
            limit = (6 / (fan_in + fan_out)) ** 0.5
            assert bound <= limit, name
            assert bound > 0.5 * limit, name
