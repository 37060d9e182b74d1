"""Language modelling: segments one after the other equal the text in one piece; penalties; learning rates."""

from functools import partial

import pytest
import torch
from built_networks import built
from torch import nn

from phmrun.engine.optimizers import build_optimizer
from phmrun.engine.schedules import build_schedule
from phmrun.tasks.lm.data import StreamBatch
from phmrun.tasks.lm.lstm import LSTMLanguageModel
from phmrun.tasks.lm.module import MEMORY, LanguageModelModule
from phmrun.tasks.lm.transformer_xl import TransformerXL

TEXT = torch.randint(0, 30, (2, 13), generator=torch.Generator().manual_seed(2))


def lstm(**options):
    torch.manual_seed(0)
    return built(
        LSTMLanguageModel,
        30,
        width=8,
        hidden=12,
        layers=2,
        **{"dropout": 0, "input_dropout": 0, "output_dropout": 0, **options},
    )


def xl():
    torch.manual_seed(0)
    return built(
        TransformerXL, 30, width=8, inner=12, heads=2, head_width=4, layers=2, memory=20, dropout=0.0, output_bias=True
    )


def modelling(network, **options):
    return LanguageModelModule(
        network, partial(build_optimizer, name="sgd"), build_schedule(name="constant"), **options
    )


def batch(start, end, places=None, pace=1.0):
    tokens, targets = TEXT[:, start:end], TEXT[:, start + 1 : end + 1]
    units = targets.numel() if places is None else len(places)
    return StreamBatch(tokens, targets, places, start == 0, units, units, pace)


@pytest.mark.parametrize("build", [lstm, xl])
def test_stretches_equal_the_text_in_one_piece(build):
    module = modelling(build())
    whole = module.loss(batch(0, 12))
    parts = [module.loss(batch(start, end)) for start, end in ((0, 5), (5, 6), (6, 12))]
    torch.testing.assert_close(sum(part.nll for part in parts), whole.nll)
    assert sum(part.units for part in parts) == whole.units == 24
    again = module.loss(batch(0, 5))  # the text begins anew
    torch.testing.assert_close(again.nll, parts[0].nll)


def test_penalties_are_those_of_merity_et_al():
    """Merity et al. 2018: α L2(m ∘ h_t) of the dropped outputs, β L2(h_t - h_t+1) of the outputs themselves."""
    network = lstm(output_dropout=0.5)
    torch.manual_seed(3)
    reading = network(TEXT[:, :6])
    plain = network.output(reading.hidden, TEXT[:, 1:7]).loss
    torch.manual_seed(3)
    module = modelling(network, activation=2.0, change=0.5)
    total = module.loss(batch(0, 6)).total
    activation = reading.hidden.square().mean()
    change = sum((reading.outputs[:, t + 1] - reading.outputs[:, t]).square().sum() for t in range(5)) / (5 * 2 * 8)
    torch.testing.assert_close(total, plain + 12 * (2.0 * activation + 0.5 * change))
    assert bool((reading.hidden == 0).any())
    assert not bool((reading.outputs == 0).any())
    module.eval()
    loss = module.loss(batch(0, 6))
    torch.testing.assert_close(loss.total, loss.nll)


def test_the_learning_rate_follows_the_length_for_one_step():
    module = modelling(lstm())
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=20.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    module._pace = 0.5
    weight.grad = torch.ones(1)
    module.on_before_optimizer_step(optimizer)
    optimizer.step()
    scheduler.step()
    assert weight.item() == -10.0
    assert optimizer.param_groups[0]["lr"] == 20.0


def test_what_is_remembered_is_in_the_checkpoint():
    module, other = modelling(lstm()), modelling(lstm())
    module.loss(batch(0, 5))
    checkpoint = {}
    module.on_save_checkpoint(checkpoint)
    assert [part.shape for part in checkpoint[MEMORY]] == [(1, 2, 12), (1, 2, 12), (1, 2, 8), (1, 2, 8)]
    other.on_load_checkpoint(checkpoint)
    torch.testing.assert_close(other.loss(batch(5, 9)).nll, module.loss(batch(5, 9)).nll, rtol=0, atol=0)
    fresh = modelling(lstm())
    fresh.on_load_checkpoint({})
    assert fresh.memory == {}
