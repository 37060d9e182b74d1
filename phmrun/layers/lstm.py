"""LSTM over any structure, on torch's fused kernel.

The dense gate matrices are built once per forward and passed to the kernel that runs the whole sequence. A structured
LSTM therefore costs about as much as a dense one. On CUDA, cuDNN needs all weights in one block of memory: it copies
them at each call (once per sequence, not per step) and warns about it.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from phmrun.errors import PhmrunError
from phmrun.kernels.dropout import dropout, dropout_mask
from phmrun.layers.gate_maps import GateMapping, GateMaps
from phmrun.layers.linear import on_device
from phmrun.layers.recurrence import GateWeights, Plan, StartedLSTM, State, fused, linear_output, stepped

Cell = Literal["standard", "linear-output", "parser-v2"]


class LSTM(nn.Module):
    """LSTM over any structure; a drop-in replacement of ``torch.nn.LSTM``.

    i, f, o = σ(·) and g = tanh(·) of W x_t + U h_{t-1} + b;  c_t = f ∘ c_{t-1} + i ∘ g;  h_t = o ∘ tanh(c_t).
    The arguments up to ``bidirectional`` are those of ``nn.LSTM``, in its order.

    Args:
        maps: "gate": eight maps per layer and direction, one per gate and per input; "stacked": two, ``[4·hidden, …]``.
        bias_vectors: Bias vectors per gate: 1, or 2 like ``nn.LSTM``; only their sum has an effect.
        coupled: Couple the input gate to the forget gate, i = 1 - f: parameters of three gates.
        variational: Use the same dropout masks at all time steps (Gal and Ghahramani 2016).
        input_dropout: Dropout rate of the inputs of the first layer.
        weight_dropout: Dropout rate of the entries of U, with one mask for all time steps (Merity et al. 2018).
        hidden_dropout: Dropout rate of h_{t-1} before U, with one mask per sequence, of ``cell="parser-v2"`` alone.
            Training then runs step by step, because no kernel supports it.
        direction_masks: Drop the inputs of each direction of a layer by a mask of its own; otherwise both share one.
            Supported by :func:`outputs` of cells other than "standard" only.
        cell: "standard"; "linear-output": h_t = o ∘ c_t without σ and tanh, as printed by Zhang et al. 2021
            (section 3.1), run step by step; "parser-v2": gates σ(2·) and learned initial h and c (Dozat et al. 2017).
            The last two are supported by :func:`outputs` only; "parser-v2" excludes ``coupled``.
        structure: Name of the structure of all maps.
        **options: Options of the structure.

    Attributes:
        observer: Callback for padded sequences, called with the number of a cell, its input vectors
            ``[count, input]`` and the previous hidden vectors ``[count, hidden]``; or None.

    Raises:
        PhmrunError: Unknown structure, option or value, or sizes that do not fit.
    """

    observer: Callable[[int, Tensor, Tensor], None] | None = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        maps: GateMapping = "gate",
        bias_vectors: Literal[1, 2] = 1,
        coupled: bool = False,
        variational: bool = False,
        input_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        direction_masks: bool = False,
        cell: Cell = "standard",
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        if maps not in ("gate", "stacked"):
            raise PhmrunError(f"an LSTM has no maps {maps!r}", valid=("gate", "stacked"))
        if direction_masks and cell == "standard":
            raise PhmrunError("an LSTM cell 'standard' reads both directions with one mask of dropped inputs")
        if hidden_dropout and cell != "parser-v2":
            raise PhmrunError(f"an LSTM cell {cell!r} drops no units of its hidden state; 'parser-v2' does")
        if coupled and cell == "parser-v2":
            raise PhmrunError("an LSTM cell 'parser-v2' has four gates, so it cannot be coupled")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout, self.input_dropout, self.weight_dropout = dropout, input_dropout, weight_dropout
        self.variational, self.cell, self.hidden_dropout = variational, cell, hidden_dropout
        self.direction_masks = direction_masks
        self.directions = 2 if bidirectional else 1
        sizes = [input_size] + [self.directions * hidden_size] * (num_layers - 1)
        vectors = bias_vectors if bias else 0
        shape: dict[str, Any] = {"maps": maps, "coupled": coupled, "doubled": cell == "parser-v2"}
        with on_device(device):
            self.cells = nn.ModuleList(
                GateMaps(size, hidden_size, vectors, **shape, structure=structure, **options)
                # Order of torch.lstm's weights and states: by layer, then forward before backward.
                for size in sizes
                for _ in range(self.directions)
            )
        if dtype is not None:
            self.to(dtype)

    def dense_weights(self) -> dict[str, Tensor]:
        """Return the dense weights under the names of ``nn.LSTM``'s parameters.

        They are computed at each call and differentiable in the parameters; no dropout is applied. All four gates have
        rows, i, f and o of "parser-v2" times 2. ``bias_hh`` is zero with one bias vector per gate; without biases, both
        are missing.
        """
        weights: dict[str, Tensor] = {}
        for number, cell in enumerate(self.cells):
            layer, backwards = divmod(number, self.directions)
            for kind, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), cell.build(), strict=True):  # type: ignore[operator]
                if weight is not None:
                    weights[f"{kind}_l{layer}{'_reverse' if backwards else ''}"] = weight
        return weights

    def plain(self) -> nn.Module:
        """Return an equivalent for evaluation.

        It is in evaluation mode, with copies of the dense weights, which get no gradient, and without dropout.

        Returns:
            ``nn.LSTM`` for the standard cell, :class:`StartedLSTM` for "parser-v2". For "linear-output" this module
            itself, unchanged.
        """
        if self.cell == "linear-output":
            return self
        settings = (self.input_size, self.hidden_size, self.num_layers, self.bias, self.batch_first)
        plain = nn.LSTM(*settings, bidirectional=self.bidirectional, device="meta")
        for name, weight in self.dense_weights().items():
            setattr(plain, name, nn.Parameter(weight.detach().clone(), requires_grad=False))
        plain.flatten_parameters()
        if self.cell == "parser-v2":
            state = torch.cat([torch.stack(cell.initial(1)) for cell in self.cells], dim=1)  # type: ignore[operator]
            return StartedLSTM(plain, state.detach().clone()).eval()
        return plain.eval()

    def forward(
        self, inputs: Tensor | PackedSequence, state: State | None = None
    ) -> tuple[Tensor | PackedSequence, State]:
        """Run over whole sequences; return outputs and last states.

        Args:
            inputs: ``[length, batch, input_size]`` (``[batch, length, input_size]`` with ``batch_first``), or packed.
            state: h_0 and c_0, each ``[num_layers · directions, batch, hidden_size]``; default: zeros.

        Returns:
            Outputs of the top layer in the layout of the inputs, with concatenated directions; and the last h and c.

        Raises:
            PhmrunError: The cell is not "standard", the inputs do not have three dimensions, or the state is of another
                number of sequences.
        """
        if self.cell != "standard":
            raise PhmrunError(f"the cell {self.cell!r} of an LSTM reads padded sequences alone, by `outputs`")
        data, sizes, order, back = inputs if isinstance(inputs, PackedSequence) else (inputs, None, None, None)
        if sizes is None and data.dim() != 3:
            raise PhmrunError(f"an LSTM reads a batch of sequences, three dimensions, not {data.dim()}")
        batch = data.shape[0 if self.batch_first else 1] if sizes is None else int(sizes[0])
        if state is None:
            state = 2 * (data.new_zeros(self.num_layers * self.directions, batch, self.hidden_size),)
        if state[0].shape[1] != batch:
            what = f"the state is of {state[0].shape[1]} sequences, and the inputs are {batch}"
            raise PhmrunError(what, hint="A run that extends another needs its batch.size.")
        if order is not None:
            state = state[0].index_select(1, order), state[1].index_select(1, order)
        outputs, (h, c) = self._run(data, sizes, state)
        if back is not None:
            h, c = h.index_select(1, back), c.index_select(1, back)
        return outputs if sizes is None else PackedSequence(outputs, sizes, order, back), (h, c)

    def padded_states(self, inputs: Tensor, lengths: Tensor, *, cells: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return :func:`outputs` and, on request, the last cell states.

        Inputs have the batch first, whatever ``batch_first`` is. Sequences are computed over their padding, too, unless
        step by step on a CPU; outputs are zero there. Dropout applies in training only. The observer is called for each
        cell, with the vectors that are no padding.

        Args:
            inputs: ``[batch, length, input_size]``.
            lengths: ``[batch]``, at least 1.
            cells: Compute the last cell states, which runs the top forward layer step by step.

        Returns:
            Outputs ``[batch, length, directions · hidden_size]``; with ``cells`` c of the top forward layer after the
            last step of each sequence, ``[batch, hidden_size]``. None without ``cells``, and for the cell
            "linear-output".
        """
        steps = torch.arange(inputs.shape[1], device=inputs.device)
        lengths = lengths.to(inputs.device)
        inside = steps < lengths.unsqueeze(1)
        starts = torch.arange(0, inside.numel(), len(steps), device=inputs.device).unsqueeze(1)
        # Backward, a sequence is reversed within its length, so that padding is last in both directions.
        backwards = (torch.where(inside, lengths.unsqueeze(1) - 1 - steps, steps) + starts).flatten()
        dropped = self.weight_dropout if self.training else 0.0
        hidden_dropout = self.hidden_dropout if self.training else 0.0
        plan: Plan | None = None
        last: Tensor | None = None
        for layer in range(self.num_layers):
            share = self.dropout if layer else self.input_dropout
            part: Any = self.cells[layer * self.directions :][: self.directions]
            read = [self._drop(inputs, share, None, time=1)]
            if self.directions == 2:
                read.append(self._drop(inputs, share, None, time=1) if self.direction_masks else read[0])
            built = [cell.build(dropped) for cell in part]
            states = [tuple(state.to(inputs) for state in cell.initial(len(inputs))) for cell in part]
            wanted = cells and layer == self.num_layers - 1
            if self.cell != "linear-output" and (hidden_dropout or wanted):
                plan = plan or Plan.of(lengths, len(steps), self.directions)
                both, kept = stepped(read, states, built, hidden_dropout, plan)
                outputs = both.flatten(2)
                last = kept[torch.arange(len(kept)), lengths - 1, 0] if wanted else None
            else:
                runs = [self._read(read[0], states[0], built[0])]
                runs += [
                    _rows(self._read(_rows(vectors, backwards), state, weights), backwards)
                    for vectors, state, weights in zip(read[1:], states[1:], built[1:], strict=True)
                ]
                outputs = runs[0] if len(runs) == 1 else torch.cat(runs, dim=-1)
            if self.observer:
                for direction, hidden in enumerate(outputs.chunk(self.directions, dim=-1)):
                    seen, hidden = (_rows(part, backwards) if direction else part for part in (read[direction], hidden))
                    before = _shifted(hidden, states[direction][0][0], 1)
                    self.observer(layer * self.directions + direction, seen[inside], before[inside])
            inputs = outputs
        return inputs * inside.unsqueeze(-1), last

    def _read(self, inputs: Tensor, state: State, built: GateWeights) -> Tensor:
        """Return the outputs of a cell without dropout of hidden vectors, ``[batch, length, hidden]``."""
        if self.cell == "linear-output":
            return linear_output(inputs, built)
        weights = [weight for weight in built if weight is not None]
        return fused(inputs, state, weights, self.bias, 1, 0.0, self.training, False, True)[0]

    def _run(self, inputs: Tensor, batch_sizes: Tensor | None, state: State) -> tuple[Tensor, State]:
        """Run all layers on padded or packed inputs; return outputs and last states.

        Dropout of inputs and weights applies in training only. One kernel call runs all layers. With an observer, or
        variational dropout in training, layers run in turn. The observer is called for padded sequences only, for every
        position.
        """
        inputs = self._drop(inputs, self.input_dropout, batch_sizes)
        dropped = self.weight_dropout if self.training else 0.0
        weights: list[GateWeights] = [cell.build(dropped) for cell in self.cells]  # type: ignore[operator]
        if not (self.observer or (self.variational and self.training and self.dropout)):
            return self._kernel(inputs, batch_sizes, state, weights, self.num_layers)
        finals: list[State] = []
        for layer in range(self.num_layers):
            if layer:
                inputs = self._drop(inputs, self.dropout, batch_sizes)
            part = slice(layer * self.directions, (layer + 1) * self.directions)
            initial = (state[0][part], state[1][part])
            outputs, final = self._kernel(inputs, batch_sizes, initial, weights[part], 1)
            if self.observer and batch_sizes is None:
                time = int(self.batch_first)
                for direction, hidden in enumerate(outputs.chunk(self.directions, dim=-1)):
                    # The backward direction is reversed in time, so that both are shifted in the same way.
                    read, hidden = (inputs.flip(time), hidden.flip(time)) if direction else (inputs, hidden)
                    before = _shifted(hidden, initial[0][direction], time)
                    self.observer(part.start + direction, read.flatten(0, 1), before.flatten(0, 1))
            inputs = outputs
            finals.append(final)
        return inputs, (torch.cat([h for h, _ in finals]), torch.cat([c for _, c in finals]))

    def _kernel(
        self, inputs: Tensor, batch_sizes: Tensor | None, state: State, weights: list[GateWeights], layers: int
    ) -> tuple[Tensor, State]:
        """Run torch's fused LSTM over ``layers`` layers; return outputs and last states.

        ``batch_sizes`` are those of packed inputs, None for padded ones. Several layers have the rate ``dropout``
        between them in training.
        """
        flat = [weight for cell in weights for weight in cell if weight is not None]
        dropout = 0.0 if layers == 1 else self.dropout
        settings = (state, flat, self.bias, layers, dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            outputs, h, c = fused(inputs, *settings, self.batch_first)
        else:
            outputs, h, c = fused(inputs, batch_sizes, *settings)
        return outputs, (h, c)

    def _drop(self, vectors: Tensor, share: float, batch_sizes: Tensor | None, time: int | None = None) -> Tensor:
        """Return a layer's inputs after dropout with rate ``share``.

        Outside training, or at rate 0, they are returned unchanged. Variational dropout has one mask per sequence, for
        all its time steps. Time is the axis ``time`` of padded vectors; None: that of ``batch_first``.
        """
        if not (share and self.training):
            return vectors
        if not self.variational:
            return dropout(vectors, share)
        if batch_sizes is None:
            time = int(self.batch_first) if time is None else time
            return dropout(vectors, share, along=time)
        masks = dropout_mask(vectors.new_empty(int(batch_sizes[0]), vectors.shape[-1]), share)
        return vectors * masks[packed_rows(batch_sizes).to(vectors.device)]


def outputs_and_cells(lstm: LSTM | StartedLSTM, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return :func:`outputs` and the last cell states of the top layer.

    Meant for an LSTM with one direction: an :class:`LSTM` gives the states of its forward direction, others of the last
    one.

    Returns:
        ``[batch, length, hidden_size]`` and c after the last step of each sequence, ``[batch, hidden_size]``; None
        instead of c for the cell "linear-output".
    """
    if isinstance(lstm, LSTM):
        hidden, cells = lstm.padded_states(inputs, lengths, cells=True)
        return hidden, cells  # type: ignore[return-value]
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    hidden, (_, c) = lstm(packed)
    return pad_packed_sequence(hidden, batch_first=True, total_length=inputs.shape[1])[0], c[-1]


def outputs(lstm: LSTM | nn.LSTM | StartedLSTM, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Return the top layer's outputs for sequences padded on the right.

    On a CPU torch's kernel runs an :class:`LSTM` over the padding: its gradient for packed sequences clears memory for
    all vectors at every time step. One with a nonstandard cell reads padded sequences on all devices. Others read
    packed sequences.

    Args:
        lstm: An LSTM with ``batch_first=True``.
        inputs: ``[batch, length, input_size]``.
        lengths: ``[batch]``, at least 1.

    Returns:
        ``[batch, length, directions · hidden_size]``, zero at padding.
    """
    if isinstance(lstm, LSTM) and (not inputs.is_cuda or lstm.cell != "standard"):
        return lstm.padded_states(inputs, lengths)[0]
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=inputs.shape[1])[0]


def _shifted(hidden: Tensor, initial: Tensor, time: int) -> Tensor:
    """Return the previous hidden vector of each step, along the axis ``time``.

    The first is ``initial [batch, hidden]``; the last vector is dropped.
    """
    return torch.cat([initial.unsqueeze(time), hidden.narrow(time, 0, hidden.shape[time] - 1)], dim=time)


def _rows(vectors: Tensor, order: Tensor) -> Tensor:
    """Return vectors ``[batch, length, size]`` in the order of flattened positions.

    Flattened, vector k of the result is vector ``order[k]`` of the input; ``order`` is ``[batch · length]``.
    """
    return vectors.flatten(0, 1).index_select(0, order).view_as(vectors)


def packed_rows(batch_sizes: Tensor) -> Tensor:
    """Return the sequence number of each vector of packed data, ``[vectors]``.

    Those of step t are 0 … ``batch_sizes[t]`` - 1. ``batch_sizes`` is on the CPU.
    """
    starts = (batch_sizes.cumsum(0) - batch_sizes).repeat_interleave(batch_sizes)
    return torch.arange(len(starts)) - starts
