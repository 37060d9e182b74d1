"""Tests of phmrun/layers/recurrence.py."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from phmrun.layers import recurrence
from phmrun.layers.recurrence import GateWeights, Plan, stepped
from tests.reference.recording import default_double

LENGTHS = [3, 7, 1, 7, 2]


def weights_of(lstm):
    return GateWeights(lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)


@pytest.fixture
def drawn():
    """An LSTM, inputs and first states, in double precision."""
    torch.manual_seed(1)
    with default_double():
        states = tuple(torch.randn(1, len(LENGTHS), 4, requires_grad=True) for _ in range(2))
        return nn.LSTM(3, 4, batch_first=True), torch.randn(len(LENGTHS), 7, 3, requires_grad=True), states


@pytest.mark.parametrize("skips", [True, False], ids=["without padding", "with padding"])
def test_outputs_and_gradients_are_those_of_torchs_lstm(drawn, skips, monkeypatch):
    monkeypatch.setattr(recurrence, "skips_padding", lambda inputs: skips)
    lstm, inputs, state = drawn
    parts = [inputs, *state, *lstm.parameters()]
    packed = pack_padded_sequence(inputs, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    outputs, (_, last) = lstm(packed, state)
    theirs = pad_packed_sequence(outputs, batch_first=True)[0]
    hidden, cells = stepped([inputs], [state], [weights_of(lstm)], 0.0, Plan.of(torch.tensor(LENGTHS), 7, 1))
    hidden, ends = hidden.squeeze(2), cells[torch.arange(len(LENGTHS)), torch.tensor(LENGTHS) - 1, 0]
    hidden = hidden * (torch.arange(7) < torch.tensor(LENGTHS).unsqueeze(1)).unsqueeze(2)
    torch.testing.assert_close(hidden, theirs)
    torch.testing.assert_close(ends, last[0])
    factors = torch.randn_like(theirs)
    wanted = torch.autograd.grad((theirs * factors).sum() + last.square().sum(), parts)
    actual = torch.autograd.grad((hidden * factors).sum() + ends.square().sum(), parts)
    for ours, expected in zip(actual, wanted, strict=True):
        torch.testing.assert_close(ours, expected)


def test_gradients_with_dropout_are_those_of_finite_differences(drawn):
    lstm, inputs, state = drawn

    def run(inputs, h, c, *weights):
        torch.manual_seed(2)
        return stepped([inputs], [(h, c)], [GateWeights(*weights)], 0.4, Plan.of(torch.tensor([3, 1, 2]), 3, 1))

    few = (inputs[:3, :3], *(item[:, :3] for item in state))
    assert torch.autograd.gradcheck(run, (*few, *weights_of(lstm)))


def test_two_directions_in_one_loop_are_those_of_torchs_lstm(drawn):
    _, inputs, _ = drawn
    with default_double():
        lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
        zeros = torch.zeros(1, len(LENGTHS), 4)
    packed = pack_padded_sequence(inputs, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    theirs = pad_packed_sequence(lstm(packed)[0], batch_first=True)[0]
    weights = list(lstm.parameters())
    both = [GateWeights(*weights[:4]), GateWeights(*weights[4:])]
    plan = Plan.of(torch.tensor(LENGTHS), 7, 2)
    hidden = stepped([inputs, inputs], [(zeros, zeros)] * 2, both, 0.0, plan)[0].flatten(2)
    torch.testing.assert_close(hidden, theirs)
    factors, parts = torch.randn_like(theirs), [inputs, *weights]
    wanted = torch.autograd.grad((theirs * factors).sum(), parts)
    torch.testing.assert_close(torch.autograd.grad((hidden * factors).sum(), parts), wanted)
