"""LSTM recurrences over time: torch's fused kernel, and step-by-step cells without a kernel."""

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from phmrun.kernels.dropout import dropout_mask

State = tuple[Tensor, Tensor]

# On a GPU, cuDNN copies weights that are built at each call. Its warning names a remedy for parameters alone. A filter
# around the call would make Python forget, at each step, which other warnings it has shown.
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


class Plan(NamedTuple):
    """Order in which a recurrence computes its vectors: step by step, in a step one direction after the other.

    In a direction of a step are the sequences that have not ended, from the longest to the shortest.
    """

    sequences: Tensor  # [batch]: numbers of the sequences, from the longest to the shortest
    positions: Tensor  # [vectors]: positions in the flattened [batch, length]
    places: Tensor  # [directions · vectors]: place of each vector, one direction after the other in `positions`
    inverse: Tensor  # [directions · vectors]: inverse of `places`
    targets: Tensor  # [directions · vectors]: positions in the flattened [batch, length, directions]
    sizes: list[int]  # number of sequences at each step

    @classmethod
    def of(cls, lengths: Tensor, longest: int, directions: int) -> Self:
        """Return the plan for sequences of some ``lengths [batch]`` padded to ``longest``.

        The second direction reads each sequence backwards. Unless :func:`skips_padding`, all sequences have the steps
        of the longest, so that no length is read; their padding is last in both directions.
        """
        device, skips = lengths.device, skips_padding(lengths)
        sequences = torch.arange(len(lengths), device=device)
        if skips:
            sequences = lengths.argsort(descending=True, stable=True)
        ends, steps = lengths[sequences], torch.arange(longest, device=device).unsqueeze(1)
        inside = steps < ends
        backwards = torch.where(inside, ends - 1 - steps, steps)
        positions = torch.stack([steps.expand_as(inside), backwards], dim=1)[:, :directions] + sequences * longest
        numbers = torch.arange(directions, device=device).view(-1, 1).expand_as(positions)
        sizes = [len(lengths)] * longest
        if skips:
            sizes = [size for size in inside.sum(dim=1).tolist() if size]
            chosen = inside.unsqueeze(1).expand_as(positions)
            first = positions[:, 0].masked_select(inside)
            positions, numbers = positions.masked_select(chosen), numbers.masked_select(chosen)
        else:
            first, positions, numbers = positions[:, 0].flatten(), positions.flatten(), numbers.flatten()
        order = torch.arange(len(positions), device=device)
        ranks = order.new_zeros(len(lengths) * longest).index_copy_(0, first, order[: len(first)])
        places = ranks[positions] + numbers * len(first)
        inverse = torch.empty_like(places).index_copy_(0, places, order)
        return cls(sequences, first, places, inverse, positions * directions + numbers, sizes)


class _Recurrence(torch.autograd.Function):
    """Standard cell over the vectors of a plan, with its gradient written out.

    Gates are in the order o, i, f, g here. The rates (tanh(c)·o(1-o), g·i(1-i), c_{t-1}·f(1-f), i(1-g²)) are
    derivatives with respect to the inputs of the gates: for o of h_t, of c_t for the others. The backward loop
    multiplies by them, and the gradient of U is one product over all steps. No graph is kept of the single steps.
    """

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, recurrent: Tensor, h: Tensor, c: Tensor, mask: Tensor | None, plan: Plan
    ) -> tuple[Tensor, Tensor]:
        """Return hidden and cell vectors, each ``[directions · vectors, hidden]``, in the order of ``plan``.

        Args:
            ctx: Context of the gradient.
            gates: W x_t + b, ``[directions · vectors, 4·hidden]``, one direction after the other.
            recurrent: U, ``[directions, 4·hidden, hidden]``.
            h: h_0, ``[directions, batch, hidden]``, from the longest sequence to the shortest.
            c: c_0, in the same way.
            mask: Factor of h_{t-1} before U, in the same way; None: 1.
            plan: Order of the vectors.
        """
        directions, _, width = recurrent.shape
        gates, transposed = gates.index_select(0, plan.places), recurrent.transpose(1, 2)
        before, kept, hidden, cells, squashed = (gates.new_empty(len(gates), width) for _ in range(5))
        columns = gates[:, : 3 * width], *gates.split(width, dim=1)
        rows = [directions * size for size in plan.sizes]
        buffers = (gates, before, kept, hidden, cells, squashed, *columns)
        steps = zip(*(values.split(rows) for values in buffers), strict=True)
        last_h, last_c = h, c
        for step, read, remembered, output, cell, tanh, squeezed, o, i, f, g in steps:
            shape = directions, len(step) // directions, width
            earlier_h, earlier_c = last_h[:, : shape[1]], last_c[:, : shape[1]]
            read = read.view(shape)
            torch.mul(earlier_h, 1 if mask is None else mask[:, : shape[1]], out=read)
            step.view(*shape[:2], -1).baddbmm_(read, transposed)
            squeezed.sigmoid_()
            g.tanh_()
            torch.mul(f.view(shape), earlier_c, out=remembered.view(shape))
            torch.addcmul(remembered, i, g, out=cell)
            torch.mul(o, torch.tanh(cell, out=tanh), out=output)
            last_h, last_c = output.view(shape), cell.view(shape)
        ctx.save_for_backward(gates, before, kept, squashed, recurrent, mask)
        ctx.plan, ctx.batch = plan, h.shape[1]
        ctx.set_materialize_grads(False)
        return hidden, cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_hidden: Tensor | None, of_cells: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of the gates, U, h_0 and c_0; None for mask and plan."""
        gates, before, kept, squashed, recurrent, mask = ctx.saved_tensors
        plan, (directions, _, width) = ctx.plan, recurrent.shape
        o, i, f, g = gates.split(width, dim=1)
        rates = torch.cat([squashed * o * (1 - o), g * i * (1 - i), kept * (1 - f), i * (1 - g * g)], dim=1)
        through = o * (1 - squashed * squashed)  # derivative of h with respect to c
        of_h = gates.new_zeros(directions, ctx.batch, width)
        of_c = torch.zeros_like(of_h)
        zero = gates.new_zeros(1, width).expand_as(kept)
        of_hidden, of_cells = (zero if values is None else values for values in (of_hidden, of_cells))
        rows = [directions * size for size in plan.sizes]
        buffers = (rates, rates[:, :width], rates[:, width:], f, through, of_hidden, of_cells)
        for step, of_o, of_others, forget, slope, from_h, from_c in reversed(
            list(zip(*(values.split(rows) for values in buffers), strict=True))
        ):
            shape = directions, len(step) // directions, width
            h, c = of_h[:, : shape[1]], of_c[:, : shape[1]]
            h += from_h.view(shape)
            if from_c.stride(0):
                c += from_c.view(shape)
            c.addcmul_(h, slope.view(shape))
            of_others.view(*shape[:2], 3, width).mul_(c.unsqueeze(2))
            of_o.view(shape).mul_(h)
            c *= forget.view(shape)
            torch.bmm(step.view(*shape[:2], -1), recurrent, out=h)
            if mask is not None:
                h *= mask[:, : shape[1]]
        of_gates, read = (
            values.index_select(0, plan.inverse).unflatten(0, (directions, -1)) for values in (rates, before)
        )
        return of_gates.flatten(0, 1), of_gates.transpose(1, 2) @ read, of_h, of_c, None, None


def stepped(
    inputs: Sequence[Tensor], states: Sequence[State], weights: Sequence[GateWeights], share: float, plan: Plan
) -> tuple[Tensor, Tensor]:
    """Run the standard cell step by step, both directions of a layer at once, without the padding if possible.

    The recurrence has the precision of the states, also under autocast. There is no second derivative. Each argument
    but the last two has a value for each direction; the second direction reads backwards.

    Args:
        inputs: ``[batch, length, input]``, padded on the right.
        states: h_0 and c_0, each ``[1, batch, hidden]``.
        weights: Dense gate weights.
        share: Dropout rate of h_{t-1} before U, with one mask per sequence, also outside training; 0: none.
        plan: Order of the vectors, by the lengths.

    Returns:
        Hidden and cell vectors of all steps, each ``[batch, length, directions, hidden]``; 0 at padding that is left
        out.
    """
    h, c = (torch.cat(parts) for parts in zip(*states, strict=True))
    width = h.shape[-1]
    mask = dropout_mask(h, share) if share else None
    read = {vectors: F.embedding(plan.positions, vectors.flatten(0, 1)) for vectors in inputs}
    gates = []
    for vectors, built in zip(inputs, weights, strict=True):
        bias = None if built.input_bias is None else (built.input_bias + built.recurrent_bias).roll(width)  # type: ignore[operator]
        gates.append(F.linear(read[vectors], built.input.roll(width, 0), bias).to(h.dtype))
    recurrent = torch.stack([built.recurrent.roll(width, 0) for built in weights]).to(h.dtype)
    ordered = (values if values is None else values.index_select(1, plan.sequences) for values in (h, c, mask))
    packed = _Recurrence.apply(torch.cat(gates), recurrent, *ordered, plan)
    shape = *inputs[0].shape[:2], len(weights)
    hidden, cells = (
        values.new_zeros(math.prod(shape), width).index_copy(0, plan.targets, values).unflatten(0, shape)
        for values in packed
    )
    return hidden, cells


def skips_padding(lengths: Tensor) -> bool:
    """Return True if a step leaves out the sequences that have ended.

    That takes reading their lengths, for which a GPU would have to wait.
    """
    return lengths.device.type == "cpu"


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
