"""The LSTM over any structure, on torch's fused kernel: a drop-in for ``torch.nn.LSTM``.

The dense gate matrices are built once per forward and handed to the kernel that runs the whole sequence, so that a
structured LSTM costs what a dense one does. On CUDA, cuDNN wants all weights in one block of memory: freshly built ones
are not, so it copies them together at each call (once per sequence, not per step) and says so in a warning.
"""

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from phmrun.errors import PhmrunError
from phmrun.layers.linear import linear_std, on_device
from phmrun.layers.recurrence import GateWeights, StartedLSTM, State, fused, linear_output, stepped
from phmrun.layers.structure import build_structure, build_weight
from phmrun.layers.structures.dense import Dense

GateMapping = Literal["gate", "stacked"]
Cell = Literal["standard", "linear-output", "parser-v2"]


class GateMaps(nn.Module):
    """The structured maps of one layer and direction, with 0, 1 or 2 bias vectors per gate; see :class:`LSTM`.

    With ``doubled`` gates, i, f and o are σ(2·), and the first state ``[2, hidden]`` (h and c) is learnt.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias_vectors: int,
        *,
        maps: GateMapping,
        coupled: bool,
        doubled: bool = False,
        **layer: Any,
    ) -> None:
        super().__init__()
        gates = 3 if coupled else 4
        self.hidden_size, self.coupled, self.doubled = hidden_size, coupled, doubled
        rows = [hidden_size] * gates if maps == "gate" else [gates * hidden_size]
        self.input, self.recurrent = (
            nn.ModuleList(build_structure(out_features=size, in_features=columns, **layer) for size in rows)
            for columns in (input_size, hidden_size)
        )
        self.bias = nn.Parameter(torch.empty(bias_vectors, gates * hidden_size)) if bias_vectors else None
        self.state = nn.Parameter(torch.empty(2, hidden_size)) if doubled else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As ``nn.LSTM``: all weights and biases with the variance of U(-1/√hidden, 1/√hidden).

        Doubled gates begin as in Parser-v2: biases and state at 0, and dense maps of all gates with one matrix of
        orthonormal columns over input and hidden vector; what is kept of c with its negative, so that it is 1 - i.
        """
        if self.state is not None:
            self._reset_doubled()
            return
        for structure in (*self.input, *self.recurrent):
            structure.reset_parameters(linear_std(self.hidden_size))
        if self.bias is not None:
            nn.init.uniform_(self.bias, -(self.hidden_size**-0.5), self.hidden_size**-0.5)

    @torch.no_grad()
    def _reset_doubled(self) -> None:
        inputs, hidden = cast(int, self.input[0].in_features), self.hidden_size
        for structure in (*self.input, *self.recurrent):
            structure.reset_parameters((inputs + hidden) ** -0.5)
        for parameter in (self.bias, self.state):
            if parameter is not None:
                nn.init.zeros_(parameter)
        joined = nn.init.orthogonal_(torch.empty(hidden, inputs + hidden, device=self.state.device))  # type: ignore[union-attr]
        gates = torch.cat([joined, -joined, joined, joined]).split([inputs, hidden], dim=1)
        for maps, rows in zip((self.input, self.recurrent), gates, strict=True):
            for structure, part in zip(maps, rows.chunk(len(maps)), strict=True):
                if isinstance(structure, Dense):
                    structure.matrix.copy_(part)

    def build(self, dropped: float = 0.0) -> GateWeights:
        """The dense weights, differentiable in the parameters; a share ``dropped`` of the recurrent ones is zero."""
        input_bias = recurrent_bias = None
        if self.bias is not None:
            input_bias = self._four_gates(self.bias[0])
            recurrent_bias = self._four_gates(self.bias[1]) if len(self.bias) == 2 else torch.zeros_like(input_bias)
        recurrent = _stacked(self.recurrent)
        if dropped:
            recurrent = recurrent * dropout_mask(recurrent, dropped)
        read = self._four_gates(_stacked(self.input))
        return GateWeights(read, self._four_gates(recurrent), input_bias, recurrent_bias)

    def initial(self, batch: int) -> State:
        """The learnt first state for so many sequences, each ``[1, batch, hidden]``; zeros if none is learnt."""
        if self.state is None:
            zeros = next(self.parameters()).new_zeros(1, batch, self.hidden_size)
            return zeros, zeros
        h, c = self.state[:, None, None].expand(-1, 1, batch, -1).unbind()
        return h.contiguous(), c.contiguous()

    def _four_gates(self, rows: Tensor) -> Tensor:
        """Coupled gates are stored f, g, o; since 1 - σ(z) = σ(-z), the rows of i are those of f, negated."""
        if self.doubled:
            i, f, g, o = rows.chunk(4)
            return torch.cat([2 * i, 2 * f, g, 2 * o])
        return torch.cat([-rows[: self.hidden_size], rows]) if self.coupled else rows


class LSTM(nn.Module):
    """i, f, o = σ(·), g = tanh(·) of W x_t + U h_{t-1} + b;  c_t = f ∘ c_{t-1} + i ∘ g;  h_t = o ∘ tanh(c_t).

    The arguments up to ``dtype`` are those of ``nn.LSTM``, in its order.

    Args:
        maps: "gate": eight maps per layer and direction, one per gate and per input; "stacked": two, ``[4·hidden, …]``.
        bias_vectors: Bias vectors per gate: 1, since their sum is all that counts, or 2 as ``nn.LSTM`` has.
        coupled: Input and forget gate are one, i = 1 - f: three gates' parameters.
        variational: Dropout masks stay the same at all time steps (Gal and Ghahramani 2016).
        input_dropout: Share of the inputs of the first layer dropped in training.
        weight_dropout: Share of the entries of U dropped in training, the same at all time steps (Merity et al. 2018).
        hidden_dropout: Share of the numbers of h_{t-1} dropped in training before U reads them, drawn once for each
            sequence. No kernel has it: such a training goes step by step.
        cell: "standard"; "linear-output", h_t = o ∘ c_t with o as the maps give it, which is what Zhang et al. 2021
            print (section 3.1), step by step, since no kernel has it; or "parser-v2", whose gates are σ(2·) and whose
            first h and c are learnt (Dozat et al. 2017). The last two are read by :func:`outputs` alone.
        structure: Of all maps; ``**options`` are its options.

    Attributes:
        observer: Where set, told for padded sequences the number of each cell, the vectors ``[count, input]`` that it
            reads, and the hidden vectors ``[count, hidden]`` of the steps before.

    Raises:
        PhmrunError: Unknown structure or option, or sizes that do not fit.
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
        cell: Cell = "standard",
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        if maps not in ("gate", "stacked"):
            raise PhmrunError(f"an LSTM has no maps {maps!r}", valid=("gate", "stacked"))
        if bias_vectors not in (1, 2):
            raise PhmrunError(f"an LSTM has 1 or 2 bias vectors per gate, not {bias_vectors}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout, self.input_dropout, self.weight_dropout = dropout, input_dropout, weight_dropout
        self.variational, self.cell, self.hidden_dropout = variational, cell, hidden_dropout
        self.directions = 2 if bidirectional else 1
        sizes = [input_size] + [self.directions * hidden_size] * (num_layers - 1)
        vectors = bias_vectors if bias else 0
        shape: dict[str, Any] = {"maps": maps, "coupled": coupled, "doubled": cell == "parser-v2"}
        with on_device(device):
            self.cells = nn.ModuleList(
                GateMaps(size, hidden_size, vectors, **shape, structure=structure, **options)
                # Layer by layer, forwards before backwards: the order in which torch.lstm takes weights and states.
                for size in sizes
                for _ in range(self.directions)
            )
        if dtype is not None:
            self.to(dtype)

    def reset_parameters(self) -> None:
        """As ``nn.LSTM``; see :meth:`GateMaps.reset_parameters`."""
        for cell in self.cells:
            cell.reset_parameters()  # type: ignore[operator]

    def dense_weights(self) -> dict[str, Tensor]:
        """The dense equivalents under the names that ``nn.LSTM`` gives its parameters."""
        weights: dict[str, Tensor] = {}
        for number, cell in enumerate(self.cells):
            layer, backwards = divmod(number, self.directions)
            for kind, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), cell.build(), strict=True):  # type: ignore[operator]
                if weight is not None:
                    weights[f"{kind}_l{layer}{'_reverse' if backwards else ''}"] = weight
        return weights

    def plain(self) -> nn.Module:
        """The ``nn.LSTM`` with the same outputs in evaluation; made on the meta device so that no weights are drawn.

        There is none with linear outputs, which stays as it is; one with a learnt state is a :class:`StartedLSTM`.
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
        """Runs over whole sequences.

        Args:
            inputs: ``[length, batch, input_size]`` (``[batch, length, input_size]`` where ``batch_first``), or packed.
            state: h_0 and c_0, each ``[num_layers · directions, batch, hidden_size]``; zeros unless given.

        Returns:
            The top layer's outputs, shaped as the inputs, directions side by side; and the last h and c.
        """
        if self.cell != "standard":
            raise PhmrunError(f"the cell {self.cell!r} of an LSTM reads padded sequences alone, by `outputs`")
        data, sizes, order, back = inputs if isinstance(inputs, PackedSequence) else (inputs, None, None, None)
        if sizes is None and data.dim() != 3:
            raise PhmrunError(f"an LSTM reads a batch of sequences, three dimensions, not {data.dim()}")
        if state is None:
            batch = data.shape[0 if self.batch_first else 1] if sizes is None else int(sizes[0])
            zeros = data.new_zeros(self.num_layers * self.directions, batch, self.hidden_size)
            state = zeros, zeros
        elif order is not None:
            state = state[0].index_select(1, order), state[1].index_select(1, order)
        outputs, (h, c) = self._run(data, sizes, state)
        if back is not None:
            h, c = h.index_select(1, back), c.index_select(1, back)
        return outputs if sizes is None else PackedSequence(outputs, sizes, order, back), (h, c)

    def padded_outputs(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """What :func:`outputs` gives, each direction run over the padding as well."""
        return self.padded_states(inputs, lengths)[0]

    def padded_states(self, inputs: Tensor, lengths: Tensor, *, cells: bool = False) -> tuple[Tensor, Tensor | None]:
        """The same, and with ``cells`` the top layer's c after the last step of each sequence, forwards."""
        steps = torch.arange(inputs.shape[1], device=inputs.device)
        lengths = lengths.to(inputs.device).unsqueeze(1)
        inside = steps < lengths
        starts = torch.arange(0, inside.numel(), len(steps), device=inputs.device).unsqueeze(1)
        # Backwards, a sentence is turned within its length: padding comes last in both directions, and no word sees it.
        backwards = (torch.where(inside, lengths - 1 - steps, steps) + starts).flatten()
        dropped = self.weight_dropout if self.training else 0.0
        last: Tensor | None = None
        for layer in range(self.num_layers):
            inputs = self._drop(inputs, self.dropout if layer else self.input_dropout, None, time=1)
            directions = []
            for direction, cell in enumerate(self.cells[layer * self.directions :][: self.directions]):
                built: GateWeights = cell.build(dropped)  # type: ignore[operator]
                read = _rows(inputs, backwards) if direction else inputs
                h, c = cell.initial(len(read))  # type: ignore[operator]
                state = h.to(read), c.to(read)
                wanted = cells and layer == self.num_layers - 1 and not direction
                said, kept = self._read(read, state, built, wanted)
                if wanted and kept is not None:
                    last = kept[torch.arange(len(kept)), lengths.squeeze(1) - 1]
                if self.observer:
                    before = _shifted(said, state[0][0], 1)
                    self.observer(layer * self.directions + direction, read[inside], before[inside])
                directions.append(_rows(said, backwards) if direction else said)
            inputs = directions[0] if len(directions) == 1 else torch.cat(directions, dim=-1)
        return inputs * inside.unsqueeze(-1), last

    def _read(self, inputs: Tensor, state: State, built: GateWeights, cells: bool) -> tuple[Tensor, Tensor | None]:
        """Outputs of one cell, ``[batch, length, hidden]``, and its c where the steps are taken one by one."""
        if self.cell == "linear-output":
            return linear_output(inputs, built), None
        share = self.hidden_dropout if self.training else 0.0
        if share or cells:
            return stepped(inputs, state, built, share)
        weights = [each for each in built if each is not None]
        return fused(inputs, state, weights, self.bias, 1, 0.0, self.training, False, True)[0], None

    def _run(self, inputs: Tensor, batch_sizes: Tensor | None, state: State) -> tuple[Tensor, State]:
        """All layers in one call, unless something must happen between them that the kernel does not do."""
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
            said, final = self._kernel(inputs, batch_sizes, initial, weights[part], 1)
            if self.observer and batch_sizes is None:
                time = int(self.batch_first)
                for direction, own in enumerate(said.chunk(self.directions, dim=-1)):
                    # Backwards, the step before is the one after: turned, both directions are shifted alike.
                    read, own = (inputs.flip(time), own.flip(time)) if direction else (inputs, own)
                    before = _shifted(own, initial[0][direction], time)
                    self.observer(part.start + direction, read.flatten(0, 1), before.flatten(0, 1))
            inputs = said
            finals.append(final)
        return inputs, (torch.cat([h for h, _ in finals]), torch.cat([c for _, c in finals]))

    def _kernel(
        self, inputs: Tensor, batch_sizes: Tensor | None, state: State, weights: list[GateWeights], layers: int
    ) -> tuple[Tensor, State]:
        """The fused LSTM of torch over ``layers`` layers."""
        flat = [weight for cell in weights for weight in cell if weight is not None]
        dropout = 0.0 if layers == 1 else self.dropout
        settings = (state, flat, self.bias, layers, dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            outputs, h, c = fused(inputs, *settings, self.batch_first)
        else:
            outputs, h, c = fused(inputs, batch_sizes, *settings)
        return outputs, (h, c)

    def _drop(self, vectors: Tensor, share: float, batch_sizes: Tensor | None, time: int | None = None) -> Tensor:
        """Dropout on a layer's inputs; variational: one mask per sequence along the dimension ``time``."""
        if not (share and self.training):
            return vectors
        if not self.variational:
            return F.dropout(vectors, share)
        if batch_sizes is None:
            time = int(self.batch_first) if time is None else time
            return vectors * F.dropout(torch.ones_like(vectors.narrow(time, 0, 1)), share)
        masks = F.dropout(vectors.new_ones(int(batch_sizes[0]), vectors.shape[-1]), share)
        return vectors * masks[packed_rows(batch_sizes).to(vectors.device)]

    def extra_repr(self) -> str:
        """As ``nn.LSTM``."""
        settings = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"
        return f"{settings}, bidirectional={self.bidirectional}, dropout={self.dropout}"


def outputs_and_cells(lstm: LSTM | StartedLSTM, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`outputs` of an LSTM of one layer and direction, and its c after the last step, ``[batch, hidden]``."""
    if isinstance(lstm, LSTM):
        said, cells = lstm.padded_states(inputs, lengths, cells=True)
        return said, cells  # type: ignore[return-value]
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    said, (_, c) = lstm(packed)
    return pad_packed_sequence(said, batch_first=True, total_length=inputs.shape[1])[0], c[-1]


def outputs(lstm: LSTM | nn.LSTM | StartedLSTM, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The top layer's outputs along padded sequences, each at the left, without the last states.

    On a CPU, the gradient of the kernel for packed sequences clears memory for all vectors at every time step: steps ×
    vectors in all. So there an :class:`LSTM` runs over the padding instead, which costs little where lengths are alike.

    Args:
        lstm: One that takes the batch first.
        inputs: ``[batch, length, input_size]``.
        lengths: ``[batch]``, at least 1.

    Returns:
        ``[batch, length, directions · hidden_size]``, zero beyond the ends.
    """
    if isinstance(lstm, LSTM) and (not inputs.is_cuda or lstm.cell != "standard"):
        return lstm.padded_outputs(inputs, lengths)
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=inputs.shape[1])[0]


def _shifted(said: Tensor, initial: Tensor, time: int) -> Tensor:
    """The hidden vectors before those of each step: ``initial [batch, hidden]``, and all but the last."""
    return torch.cat([initial.unsqueeze(time), said.narrow(time, 0, said.shape[time] - 1)], dim=time)


def _rows(vectors: Tensor, order: Tensor) -> Tensor:
    """Vectors ``[batch, length, size]`` in another order of their flattened positions."""
    return vectors.flatten(0, 1).index_select(0, order).view_as(vectors)


def packed_rows(batch_sizes: Tensor) -> Tensor:
    """For each vector of packed data the row of its sequence: step t holds rows 0 … ``batch_sizes[t]`` - 1."""
    starts = (batch_sizes.cumsum(0) - batch_sizes).repeat_interleave(batch_sizes)
    return torch.arange(len(starts)) - starts


def dropout_mask(like: Tensor, dropped: float) -> Tensor:
    """Random mask in the shape of ``like``: 0 for a share ``dropped`` of the numbers, else the inverse of the rest.

    On a CPU ``F.dropout`` draws a random number for each entry. Here one draw of 64 bits serves four entries, each of
    which is kept if its 16 bits are below a limit: the share is exact to 2⁻¹⁶.
    """
    if like.device.type != "cpu":
        return F.dropout(torch.ones_like(like), dropped)
    draws = torch.empty(-(-like.numel() // 4), dtype=torch.int64, device=like.device).random_(-(2**63), None)
    kept = max(1, round(2**16 * (1 - dropped)))
    mask = draws.view(torch.int16)[: like.numel()] < kept - 2**15
    return mask.view(like.shape) * torch.tensor(2**16 / kept, dtype=like.dtype)


def _stacked(structures: nn.ModuleList) -> Tensor:
    """The dense matrices one below the other."""
    built = [build_weight(structure) for structure in structures]  # type: ignore[arg-type]
    return built[0] if len(built) == 1 else torch.cat(built)
