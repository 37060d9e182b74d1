"""Gate maps of an LSTM's layer and direction, over any structure."""

from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from phmrun.kernels.dropout import dropout_mask
from phmrun.layers.linear import linear_std
from phmrun.layers.recurrence import GateWeights, State
from phmrun.layers.structure import build_structure, build_weight
from phmrun.layers.structures.dense import Dense

GateMapping = Literal["gate", "stacked"]


class GateMaps(nn.Module):
    """Structured maps of one layer and direction.

    There are 0, 1 or 2 bias vectors per gate (``bias_vectors``).

    With ``maps="gate"`` there is one map per gate and input, with "stacked" one of all gates per input. With
    ``coupled`` there are the gates f, g and o only. With ``doubled`` gates, i, f and o are σ(2·), and the initial state
    ``[2, hidden]`` (h and c) is learned; it excludes ``coupled``. See :class:`LSTM`.
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
        """Draw weights and biases with the variance of U(-1/√hidden, 1/√hidden), like ``nn.LSTM``.

        Doubled gates start as in Parser-v2: biases and state are 0. Dense maps of all gates share one matrix ``[hidden,
        input + hidden]`` with orthonormal rows. It is negated for the forget gate, so that f = 1 - i. Other structures
        are drawn with standard deviation 1/√(input + hidden).
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
        """Initialize doubled gates in place, as :meth:`reset_parameters` describes."""
        inputs, hidden = cast(int, self.input[0].in_features), self.hidden_size
        for structure in (*self.input, *self.recurrent):
            structure.reset_parameters((inputs + hidden) ** -0.5)
        for parameter in (self.bias, self.state):
            if parameter is not None:
                nn.init.zeros_(parameter)
        device = cast(Tensor, self.state).device
        if device.type == "meta":
            return  # the draw's meta kernels import torch's compiler
        joined = nn.init.orthogonal_(torch.empty(hidden, inputs + hidden, device=device))
        gates = torch.cat([joined, -joined, joined, joined]).split([inputs, hidden], dim=1)
        for maps, rows in zip((self.input, self.recurrent), gates, strict=True):
            for structure, part in zip(maps, rows.chunk(len(maps)), strict=True):
                if isinstance(structure, Dense):
                    structure.matrix.copy_(part)

    def build(self, dropped: float = 0.0) -> GateWeights:
        """Return the dense weights of the gates i, f, g, o, differentiable in the parameters.

        Without biases, both biases are None; with one vector per gate, the recurrent bias is zero.

        Args:
            dropped: Dropout rate of the recurrent weights' entries, also outside training; the kept ones are scaled by
                1 / (1 - dropped). 0: none.
        """
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
        """Return the initial h and c, each ``[1, batch, hidden]``: learned, or zeros."""
        if self.state is None:
            zeros = next(self.parameters()).new_zeros(1, batch, self.hidden_size)
            return zeros, zeros
        h, c = self.state[:, None, None].expand(-1, 1, batch, -1).unbind()
        return h.contiguous(), c.contiguous()

    def _four_gates(self, rows: Tensor) -> Tensor:
        """Return rows of the gates i, f, g, o.

        Doubled gates: i, f and o times 2. Coupled gates are stored as f, g, o; the rows of i are those of f, negated,
        because 1 - σ(z) = σ(-z). Otherwise the rows are unchanged.
        """
        if self.doubled:
            i, f, g, o = rows.chunk(4)
            return torch.cat([2 * i, 2 * f, g, 2 * o])
        return torch.cat([-rows[: self.hidden_size], rows]) if self.coupled else rows


def _stacked(structures: nn.ModuleList) -> Tensor:
    """Return the dense matrices of the structures, concatenated by rows.

    A single matrix is returned without a copy.
    """
    built = [build_weight(structure) for structure in structures]  # type: ignore[arg-type]
    return built[0] if len(built) == 1 else torch.cat(built)
