"""LSTM recurrences over time: torch's fused kernel, and step-by-step cells without a kernel."""

import warnings
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

State = tuple[Tensor, Tensor]

# On a GPU, cuDNN copies weights that are built at each call. Its warning names a remedy for parameters alone.
warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous chunk")


class GateWeights(NamedTuple):
    """Dense weights of one layer and direction, rows in torch's order of gates i, f, g, o."""

    input: Tensor  # [4·hidden, input]
    recurrent: Tensor  # [4·hidden, hidden]
    input_bias: Tensor | None  # [4·hidden]
    recurrent_bias: Tensor | None  # [4·hidden]


def fused(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Call ``torch.lstm`` and return its result.

    If oneDNN lacks a 16-bit LSTM for this processor, call again without oneDNN, with all tensors in 16 bits. The retry
    applies under CPU autocast only, and silences warnings. Results are outputs, last h and last c.

    Raises:
        RuntimeError: The call fails for another reason.
    """
    try:
        return torch.lstm(*arguments)
    except RuntimeError as error:
        if "primitive" not in str(error) or not torch.is_autocast_enabled("cpu"):
            raise
    dtype = torch.get_autocast_dtype("cpu")
    with warnings.catch_warnings(action="ignore"), torch.backends.mkldnn.flags(enabled=False):
        return torch.lstm(*(_cast(argument, dtype) for argument in arguments))


def _cast(argument: Any, dtype: torch.dtype) -> Any:
    """Return an argument with its floating-point tensors, alone or in a sequence, converted to ``dtype``."""
    if isinstance(argument, (list, tuple)):
        return [_cast(part, dtype) for part in argument]
    return argument.to(dtype) if isinstance(argument, Tensor) and argument.is_floating_point() else argument


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


class _Recurrence(torch.autograd.Function):
    """Standard cell over packed vectors, with its gradient written out.

    The rates (g·i(1-i), c_{t-1}·f(1-f), i(1-g²), tanh(c)·o(1-o)) are derivatives with respect to the inputs of the
    gates: of c_t, for o of h_t. The backward loop multiplies by them, and the gradient of U is one product over all
    steps. No graph is kept of the single steps.
    """

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, recurrent: Tensor, h: Tensor, c: Tensor, mask: Tensor | None, sizes: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return hidden and cell vectors, each ``[vectors, hidden]``, of sequences from the longest to the shortest.

        Args:
            ctx: Context of the gradient.
            gates: W x_t + b, ``[vectors, 4·hidden]``: all first steps, then all second ones …
            recurrent: U, ``[4·hidden, hidden]``.
            h: h_0, ``[batch, hidden]``.
            c: c_0, ``[batch, hidden]``.
            mask: Factor of h_{t-1} before U, ``[batch, hidden]``; None: 1.
            sizes: Number of sequences at each step.
        """
        width = recurrent.shape[1]
        gates, transposed = gates.clone(), recurrent.t()
        before, hidden, cells, squashed = (gates.new_empty(len(gates), width) for _ in range(4))
        steps = zip(*(values.split(sizes) for values in (gates, before, hidden, cells, squashed)), strict=True)
        last_h, last_c = h, c
        for step, read, output, cell, tanh in steps:
            count = len(step)
            torch.mul(last_h[:count], 1 if mask is None else mask[:count], out=read)
            step.addmm_(read, transposed)
            i, f, g, o = step.split(width, dim=1)
            step[:, : 2 * width].sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, last_c[:count], out=cell).addcmul_(i, g)
            torch.mul(o, torch.tanh(cell, out=tanh), out=output)
            last_h, last_c = output, cell
        ctx.save_for_backward(gates, before, cells, squashed, recurrent, c, mask)
        ctx.sizes = sizes
        ctx.set_materialize_grads(False)
        return hidden, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_hidden: Tensor | None, of_cells: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the gates, U, h_0 and c_0; None for mask and sizes."""
        gates, before, cells, squashed, recurrent, c, mask = ctx.saved_tensors
        sizes, width = ctx.sizes, recurrent.shape[1]
        i, f, g, o = gates.split(width, dim=1)
        starts = [0, *accumulate(sizes)]
        earlier = torch.cat([c] + [cells[start : start + size] for start, size in zip(starts, sizes[1:], strict=False)])
        rates = torch.cat([g * i * (1 - i), earlier * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)], dim=1)
        through = o * (1 - squashed * squashed)  # derivative of h with respect to c
        of_h, of_c = torch.zeros_like(c), torch.zeros_like(c)
        for start, count in zip(reversed(starts[:-1]), reversed(sizes), strict=True):
            rows = slice(start, start + count)
            h, cell, rate = of_h[:count], of_c[:count], rates[rows]
            if of_hidden is not None:
                h += of_hidden[rows]
            if of_cells is not None:
                cell += of_cells[rows]
            cell.addcmul_(h, through[rows])
            rate.unflatten(1, (4, width))[:, :3].mul_(cell.unsqueeze(1))
            rate[:, 3 * width :].mul_(h)
            cell *= f[rows]
            torch.mm(rate, recurrent, out=h)
            if mask is not None:
                h *= mask[:count]
        return rates, rates.t() @ before, of_h, of_c, None, None


def stepped(inputs: Tensor, state: State, weights: GateWeights, share: float, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Run the standard cell step by step, without the padding if :func:`skips_padding`.

    The recurrence has the precision of the state, also under autocast. There is no second derivative.

    Args:
        inputs: ``[batch, length, input]``, padded on the right.
        state: h_0 and c_0, each ``[1, batch, hidden]``.
        weights: Dense gate weights.
        share: Dropout rate of h_{t-1} before U, with one mask per sequence, also outside training; 0: none.
        lengths: ``[batch]``, at least 1.

    Returns:
        Hidden and cell vectors of all steps, each ``[batch, length, hidden]``; 0 at padding that is left out.
    """
    bias = None if weights.input_bias is None else weights.input_bias + weights.recurrent_bias  # type: ignore[operator]
    h, c = state[0][0], state[1][0]
    mask = F.dropout(torch.ones_like(h), share) if share else None
    batch, length = inputs.shape[:2]
    order, rows, sizes = _packed(lengths, length) if skips_padding(inputs) else _unpacked(batch, length, inputs.device)
    gates = F.linear(inputs.flatten(0, 1).index_select(0, rows), weights.input, bias).to(h.dtype)
    ordered = (values if values is None else values.index_select(0, order) for values in (h, c, mask))
    packed = _Recurrence.apply(gates, weights.recurrent.to(h.dtype), *ordered, sizes)
    hidden, cells = (
        values.new_zeros(batch * length, values.shape[1]).index_copy(0, rows, values).unflatten(0, (batch, length))
        for values in packed
    )
    return hidden, cells


def skips_padding(inputs: Tensor) -> bool:
    """Return True if a step leaves out the sequences that have ended.

    That takes reading their lengths, for which a GPU would have to wait.
    """
    return inputs.device.type == "cpu"


def _packed(lengths: Tensor, longest: int) -> tuple[Tensor, Tensor, list[int]]:
    """Return the order of sequences by falling length, and the positions and numbers of vectors by step.

    Positions are those in the flattened ``[batch, length]`` without padding: all first steps in the order, then all
    second ones … Numbers are those of sequences at each step.
    """
    order = lengths.argsort(descending=True, stable=True)
    steps = torch.arange(longest, device=lengths.device).unsqueeze(1)
    inside = steps < lengths[order]
    sizes = inside.sum(dim=1).tolist()
    return order, (order * longest + steps).masked_select(inside), [size for size in sizes if size]


def _unpacked(batch: int, length: int, device: torch.device) -> tuple[Tensor, Tensor, list[int]]:
    """Return the same as :func:`_packed` for sequences that all have ``length``."""
    order = torch.arange(batch, device=device)
    steps = torch.arange(length, device=device).unsqueeze(1)
    return order, (order * length + steps).flatten(), [batch] * length


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
