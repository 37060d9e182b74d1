"""Transformer-XL computes what kimiyoung/transformer-xl computes, in float64."""

import pytest
import torch
from built_networks import built
from recording import default_double, largest_difference, part, recorded

from phmrun.config.identity import changed_mathematics
from phmrun.tasks.lm.config import LanguageModelExperiment
from phmrun.tasks.lm.transformer_xl import TransformerXL

LENGTH, MEMORY = 4, 6


@pytest.fixture(scope="module")
def numbers():
    return recorded("transformer-xl")


def network(numbers, clamp=-1, same=False):
    embedding = {"structure": "projective", "width": 8, "cutoffs": (10, 20)}
    sizes = {"width": 8, "inner": 10, "heads": 2, "head_width": 5, "layers": 2, "memory": MEMORY, "dropout": 0.0}
    model = built(TransformerXL, 30, **sizes, output_bias=True, embedding=embedding).double()
    model.load_state_dict(part(numbers, "before/"), strict=False)
    model.clamp_len, model.same_length = None if clamp < 0 else clamp, same
    return model


def losses(model, tokens):
    """Summed losses of consecutive segments."""
    state, actual = None, []
    for start in range(0, 3 * LENGTH, LENGTH):
        reading = model(tokens[:, start : start + LENGTH], state)
        actual.append(model.loss(reading.hidden, tokens[:, start + 1 : start + LENGTH + 1]).loss)
        state = reading.state
    return torch.stack(actual)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("clamp", [-1, 3])
def test_losses_of_three_segments_are_those_of_the_authors_code(numbers, clamp, same):
    with default_double():
        ours = losses(network(numbers, clamp, same), numbers["tokens"])
    torch.testing.assert_close(ours, numbers[f"losses/clamp={clamp},same={same}"], atol=1e-12, rtol=0)


def test_gradients_and_one_step_are_those_of_the_authors_code(numbers):
    with default_double():
        model = network(numbers)
        last = losses(model, numbers["tokens"])[-1] / (LENGTH * 2)
        last.backward()
        gradients = {name: value.grad for name, value in model.named_parameters()}
        assert largest_difference(gradients, part(numbers, "gradient/")) < 1e-13
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        torch.optim.Adam(model.parameters(), lr=0.00025).step()
        assert largest_difference(dict(model.named_parameters()), part(numbers, "after/")) < 1e-10


def test_runs_of_the_former_position_rates_have_another_id():
    config = LanguageModelExperiment.model_validate({"model": {"network": "transformer-xl"}})
    assert changed_mathematics(config) == {"model.network=transformer-xl": 2}
    assert changed_mathematics(LanguageModelExperiment()) == {}
