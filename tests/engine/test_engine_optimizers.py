"""Learning rates by their closed forms, and updates by hand."""

import copy
import math

import pytest
import torch
from torch import nn

from phmrun.config import OptimizerConfig
from phmrun.config.names import registered_names
from phmrun.engine.optimizers import build_optimizer
from phmrun.engine.schedules import build_schedule
from phmrun.errors import PhmrunError
from phmrun.registry import OPTIMIZERS


@pytest.mark.parametrize(("warmup", "factor", "width"), [(4000, 1.0, 512), (16000, 2.0, 512), (10, 0.5, 16)])
def test_noam_rises_to_its_peak_at_the_end_of_the_warmup_and_falls_as_the_root(warmup, factor, width):
    rate = build_schedule(name="noam", warmup=warmup, factor=factor, width=width)
    peak = factor / math.sqrt(width * warmup)
    assert rate(warmup) == pytest.approx(peak)
    assert rate(warmup) == max(rate(step) for step in range(1, 3 * warmup))
    assert rate(1) == pytest.approx(peak / warmup)
    assert rate(warmup // 2) == pytest.approx(peak / 2)
    assert rate(4 * warmup) == pytest.approx(peak / 2)


def test_inverse_square_root():
    rate = build_schedule(name="inverse-sqrt", warmup=100, lr=0.01)
    assert [rate(step) for step in (1, 50, 100, 400, 10_000)] == pytest.approx([0.0001, 0.005, 0.01, 0.005, 0.001])


def test_constant_schedule_warms_up_and_stays():
    rate = build_schedule(name="constant", warmup=10, lr=0.01)
    assert [rate(step) for step in (1, 5, 10, 11, 10**6)] == pytest.approx([0.001, 0.005, 0.01, 0.01, 0.01])


def test_exponential_decays_by_a_factor_in_each_period():
    rate = build_schedule(name="exponential", warmup=10, lr=0.002, decay=0.75, period=5000)
    assert rate(5) == pytest.approx(0.001, rel=1e-3)
    assert [rate(step) for step in (5000, 10_000)] == pytest.approx([0.0015, 0.001125])
    assert rate(7500) == pytest.approx(0.002 * 0.75**1.5)


@pytest.mark.parametrize(("name", "later"), [("constant", 1.0), ("inverse-sqrt", 0.5)])
def test_no_warmup_starts_at_the_peak(name, later):
    rate = build_schedule(name=name, warmup=0, lr=1.0)
    assert (rate(1), rate(4)) == (1.0, later)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(PhmrunError, match="there is no schedule 'nom'") as caught:
        build_schedule(name="nom")
    assert "noam" in caught.value.valid
    assert caught.value.where == "training.schedule.name"
    with pytest.raises(PhmrunError, match=r"ends at training\.max_steps"):
        build_schedule(name="linear", lr=1.0)
    with pytest.raises(PhmrunError, match="Did you mean 'adam' or"):
        build_optimizer([], name="adamv")


@pytest.mark.parametrize(
    ("name", "setting"),
    [("adam", "clip_update"), ("lazy-adam", "weight_decay"), ("lazy-adam", "map_rate"), ("muon", "map_rate")],
)
def test_settings_that_an_optimizer_lacks_are_refused(name, setting):
    with pytest.raises(PhmrunError, match=f"{name!r} (has no {setting}|takes one learning rate)"):
        build_optimizer(nn.Linear(2, 2), name=name, **{setting: 0.5})


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adam", 0.1), ("adamw", 0.1)])
def test_two_updates_by_hand(name, decay, fused):
    """Kingma and Ba's algorithm 1; the decay joins the gradient (adam) or shrinks the weight (adamw)."""
    beta1, beta2, eps = 0.9, 0.98, 1e-9
    weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = build_optimizer([weight], name=name, betas=(beta1, beta2), eps=eps, weight_decay=decay, fused=fused)
    optimizer.param_groups[0]["lr"] = rate = 0.01
    expected, mean, square = 2.0, 0.0, 0.0
    for step, gradient in ((1, 3.0), (2, -1.0)):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        if name == "adam":
            gradient += decay * expected
        else:
            expected -= rate * decay * expected
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        expected -= rate * (mean / (1 - beta1**step)) / (math.sqrt(square / (1 - beta2**step)) + eps)
        assert float(weight.detach()) == pytest.approx(expected, rel=1e-9)


def test_two_updates_of_lamb_by_hand():
    """You et al.'s algorithm 2, the mean of the gradient corrected for its start; one tensor is one layer."""
    pytest.importorskip("pytorch_optimizer")
    beta1, beta2, eps, decay, rate = 0.9, 0.999, 1e-6, 0.1, 0.01
    weight = nn.Parameter(torch.tensor([2.0, -1.0], dtype=torch.float64))
    optimizer = build_optimizer([weight], name="lamb", betas=(beta1, beta2), eps=eps, weight_decay=decay)
    optimizer.param_groups[0]["lr"] = rate
    expected, mean, square = weight.detach().clone(), torch.zeros(2), torch.zeros(2)
    for step, gradient in ((1, [3.0, 0.5]), (2, [-1.0, 2.0])):
        grad = torch.tensor(gradient, dtype=torch.float64)
        weight.grad = grad.clone()
        optimizer.step()
        mean = beta1 * mean + (1 - beta1) * grad
        square = beta2 * square + (1 - beta2) * grad**2
        update = mean / (square.sqrt() + eps) + decay * expected
        ratio = expected.norm() / (update.norm() + eps)
        expected = expected - rate / (1 - beta1**step) * ratio * update
        torch.testing.assert_close(weight.detach(), expected)


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_every_optimizer_of_the_config_descends_and_is_restored(name):
    if name == "lamb":
        pytest.importorskip("pytorch_optimizer")
    torch.manual_seed(1)
    maps = [nn.Linear(3, 2) for _ in range(2)]
    first, second = (build_optimizer(linear, name=name, betas=(0.9, 0.99), eps=1e-8) for linear in maps)

    def advance(linear, optimizer):
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        optimizer.zero_grad()
        loss = sum((parameter - 1).square().sum() for parameter in linear.parameters())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    losses = [advance(maps[0], first) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    maps[1].load_state_dict(maps[0].state_dict())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(3):
        advance(maps[0], first)
        advance(maps[1], second)
    assert all(torch.equal(*pair) for pair in zip(*(linear.parameters() for linear in maps), strict=True))


def test_steps_fall_after_each_milestone():
    """Mehta et al. 2020, table 9: 20, divided by 10 after epoch 15."""
    rate = build_schedule(name="steps", warmup=0, lr=20.0, milestones=(15, 18), decay=0.1)
    assert [rate(step) for step in (1, 15, 16, 18, 19)] == pytest.approx([20, 20, 2, 2, 0.2])


@pytest.mark.parametrize(("name", "quarter"), [("cosine", 2 * (0.1 + 0.45 * (1 + 0.5**0.5))), ("linear", 1.55)])
def test_a_rate_falls_to_its_floor(name, quarter):
    rate = build_schedule(name=name, warmup=10, lr=2.0, total=110, floor=0.1)
    expected = [1.0, 2.0, quarter, 1.1, 0.2, 0.2]
    assert [rate(step) for step in (5, 10, 35, 60, 110, 200)] == pytest.approx(expected)


def test_the_config_names_all_optimizers():
    assert {*registered_names(OptimizerConfig.model_fields["name"])} == {*OPTIMIZERS.names()}
