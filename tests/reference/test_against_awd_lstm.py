"""AWD-LSTM computes what salesforce/awd-lstm-lm computes, in float64."""

import pytest
import torch
from recording import default_double, largest_difference, part, recorded

from phmrun.tasks.lm.config import LanguageModelOptions
from phmrun.tasks.lm.data import StreamBatch
from phmrun.tasks.lm.lstm import LSTMLanguageModel
from phmrun.tasks.lm.module import LanguageModelModule

LENGTH = 5
NO_DROPOUT = ("dropout", "input_dropout", "output_dropout", "word_dropout", "weight_dropout")
OPTIONS = {"network": "awd-lstm", "width": 6, "layers": 3, "hidden": 10, "maps": "stacked", "output_bias": True}


def build(**options):
    return LSTMLanguageModel(LanguageModelOptions(**OPTIONS, **dict.fromkeys(NO_DROPOUT, 0.0), **options), (20,), {})


def test_losses_gradient_and_a_step_are_those_of_the_authors_code():
    numbers = recorded("awd-lstm")
    with default_double():
        network = build().double()
        network.load_state_dict(part(numbers, "before/"), strict=False)
        module = LanguageModelModule(network, None, None, activation=2.0, change=1.0).train()
        for number in range(2):
            network.zero_grad()
            words = numbers["tokens"][:, number * LENGTH : (number + 1) * LENGTH + 1]
            actual = module.loss(batch_of(words, first=number == 0))
            loss = actual.total / actual.units
            torch.testing.assert_close(actual.nll / actual.units, numbers[f"nll/{number}"], atol=1e-12, rtol=0)
            torch.testing.assert_close(loss, numbers[f"loss/{number}"], atol=1e-12, rtol=0)
        loss.backward()
        gradients = {name: value.grad for name, value in network.named_parameters()}
        assert largest_difference(gradients, part(numbers, "gradient/")) < 1e-12
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.25)
        torch.optim.SGD(network.parameters(), lr=30, weight_decay=1.2e-6).step()
        assert largest_difference(dict(network.named_parameters()), part(numbers, "after/")) < 1e-11


def batch_of(words, *, first):
    return StreamBatch(words[:, :-1], words[:, 1:], None, first, words[:, 1:].numel(), words[:, 1:].numel(), 1.0)


def test_word_vectors_begin_uniform_in_the_range_of_the_authors_code():
    torch.manual_seed(1)
    start = recorded("awd-lstm")["start"]
    vectors = build(vector_range=0.1).embedding.weight.detach()
    assert float(start.abs().max()) <= 0.1
    assert float(vectors.abs().max()) <= 0.1
    assert float(vectors.std()) == pytest.approx(0.1 / 3**0.5, rel=0.15)
