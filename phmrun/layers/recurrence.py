"""Recurrences of an LSTM over time: torch's fused kernel, or step by step where no kernel has the cell."""

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

State = tuple[Tensor, Tensor]


class GateWeights(NamedTuple):
    """Dense weights of one layer and direction in torch's order: gates i, f, g, o one below the other."""

    input: Tensor  # [4·hidden, input]
    recurrent: Tensor  # [4·hidden, hidden]
    input_bias: Tensor | None  # [4·hidden]
    recurrent_bias: Tensor | None  # [4·hidden]


def fused(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """``torch.lstm``, without oneDNN where that has no LSTM in 16 bits for this processor: then it takes 32."""
    try:
        return torch.lstm(*arguments)
    except RuntimeError as error:
        if "primitive" not in str(error) or not torch.is_autocast_enabled("cpu"):
            raise
    with warnings.catch_warnings(action="ignore"), torch.backends.mkldnn.flags(enabled=False):
        return torch.lstm(*arguments)


def linear_output(inputs: Tensor, weights: GateWeights) -> Tensor:
    """c_t = σ(f) ∘ c_{t-1} + σ(i) ∘ tanh(g); h_t = o ∘ c_t, over ``inputs [batch, length, input]``."""
    bias = None if weights.input_bias is None else weights.input_bias + weights.recurrent_bias  # type: ignore[operator]
    read = F.linear(inputs, weights.input, bias)
    hidden = cell = inputs.new_zeros(len(inputs), weights.recurrent.shape[1])
    said = []
    for step in read.unbind(1):
        i, f, g, o = torch.addmm(step, hidden, weights.recurrent.t()).chunk(4, dim=1)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o * cell
        said.append(hidden)
    return torch.stack(said, dim=1)


def stepped(inputs: Tensor, state: State, weights: GateWeights, share: float) -> tuple[Tensor, Tensor]:
    """Hidden and cell vectors of all steps; U reads h_{t-1} without a ``share`` of it, drawn once a sequence."""
    bias = None if weights.input_bias is None else weights.input_bias + weights.recurrent_bias  # type: ignore[operator]
    hidden, cell = state[0][0], state[1][0]
    mask = F.dropout(torch.ones_like(hidden), share) if share else None
    recurrent = weights.recurrent.t()
    said, cells = [], []
    for step in F.linear(inputs, weights.input, bias).unbind(1):
        gates = torch.addmm(step, hidden if mask is None else hidden * mask, recurrent)
        i, f, g, o = gates.chunk(4, dim=1)
        cell = torch.addcmul(f.sigmoid() * cell, i.sigmoid(), g.tanh())
        hidden = o.sigmoid() * cell.tanh()
        said.append(hidden)
        cells.append(cell)
    return torch.stack(said, dim=1), torch.stack(cells, dim=1)


class StartedLSTM(nn.Module):
    """An ``nn.LSTM`` that begins with a state of its own, ``[2, layers · directions, 1, hidden]``: h and c."""

    def __init__(self, lstm: nn.LSTM, state: Tensor) -> None:
        super().__init__()
        self.lstm, self.state = lstm, nn.Parameter(state, requires_grad=False)

    def forward(self, inputs: PackedSequence) -> tuple[PackedSequence, State]:
        """As ``nn.LSTM`` of packed sequences."""
        h, c = self.state.expand(-1, -1, int(inputs.batch_sizes[0]), -1).contiguous().unbind()
        outputs, final = self.lstm(inputs, (h, c))
        return outputs, final
