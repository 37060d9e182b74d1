"""LSTM recurrences over time: torch's fused kernel, and step-by-step cells without a kernel."""

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

State = tuple[Tensor, Tensor]


class GateWeights(NamedTuple):
    """Dense weights of one layer and direction, rows in torch's order of gates i, f, g, o."""

    input: Tensor  # [4·hidden, input]
    recurrent: Tensor  # [4·hidden, hidden]
    input_bias: Tensor | None  # [4·hidden]
    recurrent_bias: Tensor | None  # [4·hidden]


def fused(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Call ``torch.lstm`` and return its result.

    If oneDNN lacks a 16-bit LSTM for this processor, call again without oneDNN. The retry applies under CPU autocast
    only, and silences warnings. Results are outputs, last h and last c.

    Raises:
        RuntimeError: The call fails for another reason.
    """
    try:
        return torch.lstm(*arguments)
    except RuntimeError as error:
        if "primitive" not in str(error) or not torch.is_autocast_enabled("cpu"):
            raise
    with warnings.catch_warnings(action="ignore"), torch.backends.mkldnn.flags(enabled=False):
        return torch.lstm(*arguments)


def linear_output(inputs: Tensor, weights: GateWeights) -> Tensor:
    """Run the cell without output nonlinearity step by step, from zero states.

    c_t = σ(f) ∘ c_{t-1} + σ(i) ∘ tanh(g);  h_t = o ∘ c_t. The gate o has no σ.

    Args:
        inputs: ``[batch, length, input]``.
        weights: Dense gate weights.

    Returns:
        Hidden vectors ``[batch, length, hidden]``.
    """
    bias = None if weights.input_bias is None else weights.input_bias + weights.recurrent_bias  # type: ignore[operator]
    read = F.linear(inputs, weights.input, bias)
    hidden = cell = inputs.new_zeros(len(inputs), weights.recurrent.shape[1])
    outputs = []
    for step in read.unbind(1):
        i, f, g, o = torch.addmm(step, hidden, weights.recurrent.t()).chunk(4, dim=1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o * cell
        outputs.append(hidden)
    return torch.stack(outputs, dim=1)


def stepped(inputs: Tensor, state: State, weights: GateWeights, share: float) -> tuple[Tensor, Tensor]:
    """Run the standard cell step by step.

    Args:
        inputs: ``[batch, length, input]``.
        state: h_0 and c_0, each ``[1, batch, hidden]``.
        weights: Dense gate weights.
        share: Dropout rate of h_{t-1} before U, with one mask per sequence, also outside training; 0: none.

    Returns:
        Hidden and cell vectors of all steps, each ``[batch, length, hidden]``.
    """
    bias = None if weights.input_bias is None else weights.input_bias + weights.recurrent_bias  # type: ignore[operator]
    hidden, cell = state[0][0], state[1][0]
    mask = F.dropout(torch.ones_like(hidden), share) if share else None
    recurrent = weights.recurrent.t()
    outputs, cells = [], []
    for step in F.linear(inputs, weights.input, bias).unbind(1):
        gates = torch.addmm(step, hidden if mask is None else hidden * mask, recurrent)
        i, f, g, o = gates.chunk(4, dim=1)
        cell = torch.addcmul(f.sigmoid() * cell, i.sigmoid(), g.tanh())
        hidden = o.sigmoid() * cell.tanh()
        outputs.append(hidden)
        cells.append(cell)
    return torch.stack(outputs, dim=1), torch.stack(cells, dim=1)


class StartedLSTM(nn.Module):
    """``nn.LSTM`` with a learned initial state.

    Args:
        lstm: LSTM to run.
        state: h_0 and c_0, ``[2, layers · directions, 1, hidden]``; they get no gradient.
    """

    def __init__(self, lstm: nn.LSTM, state: Tensor) -> None:
        super().__init__()
        self.lstm, self.state = lstm, nn.Parameter(state, requires_grad=False)

    def forward(self, inputs: PackedSequence) -> tuple[PackedSequence, State]:
        """Run over packed sequences from the learned state.

        Return outputs and last states, as ``nn.LSTM`` does.
        """
        h, c = self.state.expand(-1, -1, int(inputs.batch_sizes[0]), -1).contiguous().unbind()
        outputs, final = self.lstm(inputs, (h, c))
        return outputs, final
