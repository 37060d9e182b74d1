"""HGT: a stack of group transforms, ever wider and with ever fewer groups (hierarchical group transform).

Formula:        ê¹ = F(e; W¹, g¹);  êˡ = F(mix(êˡ⁻¹, e); Wˡ, gˡ), l = 2 … N
Parameters:     Σ_l in_l·out_l / gˡ² where the groups of a transform share their matrix, Σ_l in_l·out_l / gˡ otherwise
Initialisation: each group as ``nn.Linear``
Source:         Mehta et al., "DeFINE: Deep Factorized Input Token Embeddings for Neural Sequence Modeling", ICLR 2020

Groups are those of equation 1, gˡ = max(⌊g_max / 2^(l-1)⌋, 1), and nothing normalises: layer norms are an option of
ours, no text, equation or figure has one. The paper names neither g_max nor an activation nor how widths are rounded;
appendix A.1 lets the groups of a transform share a matrix, figure 2d counts one for each. No combination of these
readings was found to give more than two of its nine counts.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers.linear import linear_std
from phmrun.layers.structure import build_structure, build_weight

Connection = Literal["mixer", "concat", "residual", "plain"]
Schedule = Literal["cycle", "halving", "fixed"]
Activation = Literal["gelu", "relu", "none"]

CONNECTIONS = ("mixer", "concat", "residual", "plain")
DEEPEST = 1000
"""Most group transforms, which are built one by one."""
SCHEDULES = ("cycle", "halving", "fixed")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "none": lambda values: values}


def group_schedule(depth: int, max_groups: int, schedule: Schedule) -> list[int]:
    """Groups of each layer.

    Args:
        depth: Number of layers.
        max_groups: Groups of the first layer.
        schedule: "halving": g, g/2, … 1, 1, 1 (equation 1); "cycle": g, g/2, … 1, g, g/2, …; "fixed": g in all layers.
    """
    if schedule == "fixed":
        return [max_groups] * depth
    halvings = max_groups.bit_length()
    steps = [layer % halvings if schedule == "cycle" else layer for layer in range(depth)]
    return [max(max_groups >> step, 1) for step in steps]


def width_schedule(start: int, end: int, depth: int, multiple_of: int) -> list[int]:
    """Widths of the layers' outputs, evenly spaced up to ``end``, each rounded up to a multiple of ``multiple_of``."""
    exact = [start + (end - start) * layer / depth for layer in range(1, depth + 1)]
    return [math.ceil(round(width, 6) / multiple_of) * multiple_of for width in exact]


class GroupTransform(nn.Module):
    """Each of ``groups`` parts of the input through a linear map of its own, or through one that all share.

    Args:
        in_features: Size of an input vector, over all groups.
        out_features: Size of an output vector, over all groups.
        groups: Number of parts; divides both sizes.
        shared: Whether all groups have the same matrix and bias.
        bias: Whether there is a bias.
        structure: Name of the structure of the ``[out_features / groups, in_features / groups]`` matrices.
        **options: Its options.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        groups: int,
        *,
        shared: bool = True,
        bias: bool = True,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        if in_features % groups or out_features % groups:
            raise PhmrunError(f"{groups} groups do not divide a transform of {in_features} to {out_features} numbers")
        self.in_features, self.groups = in_features, groups
        matrices = 1 if shared else groups
        rows, columns = out_features // groups, in_features // groups
        self.maps = nn.ModuleList(build_structure(structure, rows, columns, **options) for _ in range(matrices))
        self.bias = nn.Parameter(torch.empty(matrices, rows)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Each group as ``nn.Linear``."""
        columns = self.in_features // self.groups
        for structure in self.maps:
            structure.reset_parameters(linear_std(columns))  # type: ignore[operator]
        if self.bias is not None:
            nn.init.uniform_(self.bias, -(columns**-0.5), columns**-0.5)

    def forward(self, parts: Tensor) -> Tensor:
        """``[tokens, groups, in_features / groups] -> [tokens, out_features]``."""
        weights = [build_weight(structure) for structure in self.maps]  # type: ignore[arg-type]
        if len(weights) == 1:
            return F.linear(parts, weights[0], None if self.bias is None else self.bias[0]).flatten(1)
        outputs = torch.einsum("tgi,goi->tgo", parts, torch.stack(weights))
        return (outputs if self.bias is None else outputs + self.bias).flatten(1)

    def extra_repr(self) -> str:
        """Groups and whether they share."""
        return f"groups={self.groups}, shared={len(self.maps) < self.groups}"


class HGT(nn.Module):
    """Hierarchical group transform: ``depth`` group transforms of rising width and falling number of groups.

    Args:
        in_features: Size of an input vector (n).
        out_features: Size of an output vector (k), rounded up to ``multiple_of``.
        depth: Number of transforms (N).
        max_groups: Groups of the first transform, a power of two.
        schedule: Groups of the others, see :func:`group_schedule`. "fixed" gives group linear transforms (GLT), and
            with ``max_groups=1`` linear ones.
        connection: What a transform sees beside the output before it: "plain": nothing; "residual": nothing, but its
            input is added to its output, all widths being k/2; "concat": the input of the whole, put behind;
            "mixer": the input of the whole, group by group.
        shared: Whether all groups of a transform have the same matrix.
        shuffle: Whether features change groups between transforms.
        bias: Whether transforms have biases.
        norm: Whether a layer norm follows each transform, which the paper's has not.
        activation: The function after it.
        multiple_of: Widths are rounded up to multiples of this.
        structure: Name of the structure of all matrices.
        **options: Its options.

    Raises:
        PhmrunError: Unknown names, sizes that the groups do not divide, or a structure that does not fit.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        depth: int,
        *,
        max_groups: int = 16,
        schedule: Schedule | Sequence[int] = "halving",
        connection: Connection = "plain",
        shared: bool = True,
        shuffle: bool = False,
        bias: bool = True,
        norm: bool = False,
        activation: Activation = "gelu",
        multiple_of: int = 32,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        _check("connection", connection, CONNECTIONS)
        _check("activation", activation, ACTIVATIONS)
        if not 1 <= depth <= DEEPEST:
            raise PhmrunError(f"depth is {depth:,}", valid=[f"1 to {DEEPEST:,}"])
        if isinstance(schedule, str):
            _check("group schedule", schedule, SCHEDULES)
            groups = group_schedule(depth, max_groups, schedule)
        else:
            groups = list(schedule)
        widths = width_schedule(in_features, out_features, depth, multiple_of)
        if connection == "residual":
            widths = [math.ceil(out_features / 2 / multiple_of) * multiple_of] * depth
        if len(groups) != depth:
            raise PhmrunError(f"{len(groups)} numbers of groups are given for {depth} transforms")
        extra = in_features if connection in ("mixer", "concat") else 0
        inputs = [in_features] + [width + extra for width in widths[:-1]]
        self.in_features, self.out_features = in_features, widths[-1]
        self.connection, self.shuffle, self.activation = connection, shuffle, activation
        self.transforms = nn.ModuleList(
            GroupTransform(*sizes, shared=shared, bias=bias, structure=structure, **options)
            for sizes in zip(inputs, widths, groups, strict=True)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) if norm else nn.Identity() for width in widths)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[tokens, in_features] -> [tokens, out_features]``."""
        return self.layers(inputs)[-1]

    def layers(self, inputs: Tensor) -> list[Tensor]:
        """What each transform makes, ``[tokens, width]``."""
        hidden, made = inputs, []
        for number, (transform, norm) in enumerate(zip(self.transforms, self.norms, strict=True)):
            groups: int = transform.groups  # type: ignore[assignment]
            seen = hidden
            if number and self.shuffle:
                seen = seen.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1)
            outputs = transform(self._parts(seen, inputs if number else None, groups))
            outputs = ACTIVATIONS[self.activation](norm(outputs))
            adds = self.connection == "residual" and outputs.shape == hidden.shape
            hidden = hidden + outputs if adds else outputs
            made.append(hidden)
        return made

    def _parts(self, hidden: Tensor, inputs: Tensor | None, groups: int) -> Tensor:
        """What each group sees, ``[tokens, groups, …]``."""
        if inputs is None or self.connection in ("plain", "residual"):
            return hidden.unflatten(1, (groups, -1))
        if self.connection == "concat":
            return torch.cat([hidden, inputs], 1).unflatten(1, (groups, -1))
        return torch.cat([hidden.unflatten(1, (groups, -1)), inputs.unflatten(1, (groups, -1))], 2)


def _check(kind: str, name: str, valid: Collection[str]) -> None:
    if name not in valid:
        raise PhmrunError(f"there is no {kind} {name!r}", valid=tuple(valid))
