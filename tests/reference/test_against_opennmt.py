"""A Transformer and its search compute what OpenNMT/OpenNMT-py computes, in float64.

OpenNMT interleaves sines and cosines of positions; ours stand one after the other, so theirs are set here. Its layer
norms add 1e-6 to the variance, ours 1e-5, so theirs is set here, too.
"""

import pytest
import torch
from recording import default_double, largest_difference, part, recorded
from torch import nn

from phmrun.decoding.beam import beam_search
from phmrun.layers.cross_entropy import linear_cross_entropy
from phmrun.models.options import TransformerOptions
from phmrun.models.positions import sinusoids
from phmrun.models.transformer import Transformer, padding_mask
from phmrun.text.vocabulary import EOS, PAD

OPTIONS = {
    **{"width": 8, "feedforward": 16, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, "norm": "pre"},
    **{"positions": "sinusoidal-vaswani", "attention_maps": "separate", "bias": True, "output_bias": True},
    **{"tie": "none", "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
}


@pytest.fixture(scope="module")
def numbers():
    return recorded("opennmt-py")


def network(numbers, eps=1e-6):
    with default_double():
        places = {place: {} for place in ("layer", "embedding", "output")}
        model = Transformer(TransformerOptions(**OPTIONS), (12, 12), places).double()
        model.load_state_dict(part(numbers, "before/"))
        model.positions.table[:20] = numbers["vectors"].double()
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = eps
        model.train()
        return model


def hidden_vectors(model, numbers):
    source, target = numbers["source"], numbers["target"]
    return model(source, padding_mask(source, PAD), target[:, :-1])


def test_logits_gradient_and_a_step_are_those_of_opennmt(numbers):
    with default_double():
        model, wanted = network(numbers), numbers["target"][:, 1:]
        hidden, real = hidden_vectors(model, numbers), numbers["target"][:, 1:] != PAD
        torch.testing.assert_close(model.output(hidden)[real], numbers["logits"][real], atol=1e-12, rtol=0)
        inner, weight = model.output.reduced(hidden[real])
        loss = linear_cross_entropy(inner, weight, model.output.bias, wanted[real], smoothing=0.1).loss
        torch.testing.assert_close(loss, numbers["loss"], atol=1e-11, rtol=0)
        (loss / real.sum()).backward()
        gradients = {name: value.grad for name, value in model.named_parameters()}
        assert largest_difference(gradients, part(numbers, "gradient/")) < 1e-12
        torch.optim.Adam(model.parameters(), lr=0.001, betas=(0.9, 0.998), eps=1e-9).step()
        assert largest_difference(dict(model.named_parameters()), part(numbers, "after/")) < 1e-9


def test_our_constant_of_layer_norms_moves_logits_by_less_than_1e_minus_4(numbers):
    with default_double():
        ours = network(numbers, eps=1e-5)
        logits = ours.output(hidden_vectors(ours, numbers)).detach()
        real = numbers["target"][:, 1:] != PAD
        assert 1e-9 < float((logits - numbers["logits"])[real].abs().max()) < 1e-4


class Table:
    """Model of a table: the logits of the next word after each word."""

    def __init__(self, logits):
        self.logits = logits

    def start(self, source):
        return source

    def step(self, tokens, state):
        return self.logits[tokens]

    def reorder(self, state, beams):
        return state

    def select(self, state, sentences):
        return state


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_outputs_of_the_search_are_those_of_opennmt_but_for_its_end(numbers, alpha):
    """OpenNMT searches until the beam's best hypothesis ends; ours also stops with as many endings as the beam."""
    settings = {"beam": 3, "alpha": alpha, "max_lengths": [40]}
    differing = []
    for number, logits in enumerate(numbers["search/tables"]):
        theirs = [token for token in numbers[f"search/{number}/{alpha}"].tolist() if token != EOS]
        if beam_search(Table(logits), torch.tensor([[4, EOS]]), **settings)[0][0].tokens != theirs:
            differing.append(number)
    assert differing == [5]


def test_position_vectors_have_the_rates_of_opennmt(numbers):
    theirs = numbers["vectors"].float()
    ours = sinusoids(20, 8, paper=True)
    torch.testing.assert_close(ours, torch.cat([theirs[:, 0::2], theirs[:, 1::2]], 1), atol=1e-5, rtol=0)
    assert float((sinusoids(20, 8) - ours).abs().max()) > 0.01  # tensor2tensor's rates are others
