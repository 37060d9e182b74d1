"""DeFINE: deep token embeddings, n numbers per token expanded to k by an HGT and reduced to m.

Formula:        eᵥ = row v of the mapping;  êᵥ = HGT(eᵥ);  embedding = W [êᵥ, eᵥ]
                HGT (hierarchical group transform): a stack of group transforms with increasing widths and decreasing
                numbers of groups, ê¹ = F(e; W¹, g¹);  êˡ = F(mix(êˡ⁻¹, e); Wˡ, gˡ), l = 2 … N
Parameters:     those of the mapping; (k + n)·m; those of the HGT: Σ_l in_l·out_l / gˡ² if the groups of a transform
                share their matrix, otherwise Σ_l in_l·out_l / gˡ
Initialization: each group like ``nn.Linear``
Source:         Mehta et al., "DeFINE: Deep Factorized Input Token Embeddings for Neural Sequence Modeling", ICLR 2020

Groups follow equation 1, gˡ = max(⌊g_max / 2^(l-1)⌋, 1). Layer norms are an option of phmrun; the paper has none. Of
g_max the paper shows one case: in figure 11 (Transformer-XL, N = 3, k = 4,096) the first two expansion layers have 4
and 2 groups, so that g_max is 4, which gives 16.6M, not the printed 1.92M. It specifies neither an activation nor the
rounding of widths. In appendix A.1 the groups of a transform share a matrix, figure 2d counts one for each.
The 1.92M are printed for all n. A unit that reads the token's m numbers, projected from n, explains that (A.3: in
Transformer-XL the mapping is the projective embedding): ``projected``.
"""

import math
from collections.abc import Callable, Collection
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers.adaptive import AdaptiveInput
from phmrun.layers.linear import Linear, linear_std
from phmrun.layers.structure import build_structure, build_weight

Connection = Literal["mixer", "concat", "end", "residual", "plain"]
READ_LAST = ("mixer", "concat", "end")
"""Connections with which the last map reads the token's own numbers, too."""
Schedule = Literal["cycle", "halving", "fixed"]
Variant = Literal["text", "released"]
Activation = Literal["gelu", "relu", "none"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "none": lambda values: values}

DEEPEST = 1000
"""Largest number of group transforms."""
CHUNK = 16_384
"""Tokens embedded at a time when the whole table is computed."""
HGT_SETTINGS = ("max_groups", "schedule", "shared", "shuffle", "activation", "multiple_of")
"""Arguments of :class:`HGT` that :class:`DeFINE` passes on."""


def group_schedule(depth: int, max_groups: int, schedule: Schedule) -> list[int]:
    """Return the number of groups of each layer.

    "halving": g, g/2, … 1, 1, 1 (equation 1); "cycle": g, g/2, … 1, g, …; "fixed": g, g, ….
    """
    if schedule == "fixed":
        return [max_groups] * depth
    halvings = max_groups.bit_length()
    steps = [layer % halvings if schedule == "cycle" else layer for layer in range(depth)]
    return [max(max_groups >> step, 1) for step in steps]


def width_schedule(start: int, end: int, depth: int, multiple_of: int) -> list[int]:
    """Return the ``depth`` output widths, evenly spaced from ``start`` to ``end``.

    ``start`` is left out, ``end`` is the last. Widths are rounded up to multiples of ``multiple_of``.
    """
    exact = [start + (end - start) * layer / depth for layer in range(1, depth + 1)]
    return [math.ceil(round(width, 6) / multiple_of) * multiple_of for width in exact]


class GroupTransform(nn.Module):
    """Group linear transform: a linear map of each group of features.

    Args:
        in_features: Size of an input vector.
        out_features: Size of an output vector.
        groups: Number of groups; divides both sizes.
        shared: Use one matrix and bias for all groups.
        bias: Add biases.
        **layer: Structure of the ``[out_features / groups, in_features / groups]`` matrices, and its options.

    Raises:
        PhmrunError: The groups do not divide the sizes, or the structure does not fit.
    """

    def __init__(
        self, in_features: int, out_features: int, groups: int, *, shared: bool = True, bias: bool = True, **layer: Any
    ) -> None:
        super().__init__()
        if in_features % groups or out_features % groups:
            raise PhmrunError(f"{groups} groups do not divide a transform of {in_features} to {out_features} numbers")
        self.in_features, self.groups = in_features, groups
        matrices = 1 if shared else groups
        rows, columns = out_features // groups, in_features // groups
        settings = {"structure": "dense", "out_features": rows, "in_features": columns, **layer}
        self.maps = nn.ModuleList(build_structure(**settings) for _ in range(matrices))
        self.bias = nn.Parameter(torch.empty(matrices, rows)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw each group's matrix and bias like ``nn.Linear``, in place."""
        columns = self.in_features // self.groups
        for structure in self.maps:
            structure.reset_parameters(linear_std(columns))  # type: ignore[operator]
        if self.bias is not None:
            nn.init.uniform_(self.bias, -(columns**-0.5), columns**-0.5)

    def forward(self, parts: Tensor) -> Tensor:
        """Return the outputs of all groups, joined.

        ``[tokens, groups, in_features / groups] -> [tokens, out_features]``. A shared matrix serves all groups.
        """
        weights = [build_weight(structure) for structure in self.maps]  # type: ignore[arg-type]
        if len(weights) == 1:
            return F.linear(parts, weights[0], None if self.bias is None else self.bias[0]).flatten(1)
        outputs = torch.einsum("tgi,goi->tgo", parts, torch.stack(weights))
        return (outputs if self.bias is None else outputs + self.bias).flatten(1)


class HGT(nn.Module):
    """Hierarchical group transform: group transforms of increasing width and fewer groups.

    Args:
        in_features: n.
        out_features: k. The attribute is the actual width: k, or k/2 with "residual", rounded up to ``multiple_of``.
        depth: Number of transforms (N), 1 to 1,000.
        max_groups: Groups of the first transform, a power of two.
        schedule: Groups of the others, see :func:`group_schedule`. "fixed" gives group linear transforms (GLT),
            and with ``max_groups=1`` linear ones.
        connection: Additional input of all transforms except the first.

            - "plain", "end": none;
            - "residual": none; inputs are added to outputs of equal width, and all widths are k/2;
            - "concat": the input of the stack, appended;
            - "mixer": the input of the stack, appended group by group.
        shared: Use one matrix for all groups of a transform.
        shuffle: Shuffle features across groups between transforms.
        bias: Add biases to the transforms.
        norm: Add a layer norm after each transform; the paper has none.
        activation: Function after each transform and norm.
        multiple_of: Widths are rounded up to multiples of this.
        **layer: Structure of all matrices, and its options.

    Raises:
        PhmrunError: Unknown names, a depth out of range, sizes that the groups do not divide, or a structure that does
            not fit.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        depth: int,
        *,
        max_groups: int = 16,
        schedule: Schedule = "halving",
        connection: Connection = "plain",
        shared: bool = True,
        shuffle: bool = False,
        bias: bool = True,
        norm: bool = False,
        activation: Activation = "gelu",
        multiple_of: int = 32,
        **layer: Any,
    ) -> None:
        super().__init__()
        _check("connection", connection, get_args(Connection))
        _check("activation", activation, ACTIVATIONS)
        if not 1 <= depth <= DEEPEST:
            raise PhmrunError(f"depth is {depth:,}", valid=[f"1 to {DEEPEST:,}"])
        _check("group schedule", schedule, get_args(Schedule))
        groups = group_schedule(depth, max_groups, schedule)
        widths = width_schedule(in_features, out_features, depth, multiple_of)
        if connection == "residual":
            widths = [math.ceil(out_features / 2 / multiple_of) * multiple_of] * depth
        extra = in_features if connection in ("mixer", "concat") else 0
        # The first transform reads the input anyway; only the others get it in addition.
        inputs = [in_features] + [width + extra for width in widths[:-1]]
        self.in_features, self.out_features = in_features, widths[-1]
        self.connection, self.shuffle, self.activation = connection, shuffle, activation
        self.transforms = nn.ModuleList(
            GroupTransform(*sizes, shared=shared, bias=bias, **layer)
            for sizes in zip(inputs, widths, groups, strict=True)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) if norm else nn.Identity() for width in widths)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the last transform's output, ``[tokens, in_features] -> [tokens, out_features]``.

        Each output is activation(norm(transform)). From the second on, features are shuffled and the stack's input is
        appended, as the settings say. "residual" adds the transform's input if the widths are equal.
        """
        hidden = inputs
        for number, (transform, norm) in enumerate(zip(self.transforms, self.norms, strict=True)):
            groups: int = transform.groups  # type: ignore[assignment]
            seen = hidden
            if number and self.shuffle:
                seen = seen.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1)
            if number and self.connection == "concat":
                seen = torch.cat([seen, inputs], 1)
            parts = seen.unflatten(1, (groups, -1))  # inputs by group
            if number and self.connection == "mixer":
                parts = torch.cat([parts, inputs.unflatten(1, (groups, -1))], 2)
            outputs = ACTIVATIONS[self.activation](norm(transform(parts)))
            adds = self.connection == "residual" and outputs.shape == hidden.shape
            hidden = hidden + outputs if adds else outputs
        return hidden


def _check(kind: str, name: str, valid: Collection[str]) -> None:
    """Check that a name is valid.

    Raises:
        PhmrunError: It is not; ``kind`` names the setting.
    """
    if name not in valid:
        raise PhmrunError(f"there is no {kind} {name!r}", valid=tuple(valid))


class DeFINE(nn.Module):
    """Deep token embedding: n numbers per token, expanded to k, reduced to m.

    An :class:`HGT` expands them.

    In evaluation without gradients, the embeddings of the whole vocabulary are computed once and looked up. The table
    is dropped when a parameter changes, the mode is set, or the module is moved or converted.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: m; without ``reduce`` the width is that of the expansion.
        width: Size of a token's vector (n).
        expansion: Width of the last group transform (k).
        depth: Number of group transforms (N).
        mapping: Module that maps tokens to n numbers; default: a table of vectors.
        unit: Module that maps n numbers to m, instead of expansion and reduction; ``connection``, ``reduce``, ``norm``
            and the settings of :class:`HGT` are then ignored.
        reduce: Add a last map to m.
        connection: See :class:`HGT`; "plain" is the paper's HGT embedding. With "mixer", "concat" and "end" the last
            map reads the n numbers as well.
        norm: Add a layer norm after each transform and the last map; the paper has none.
        bias: Add biases to the transforms and the last map.
        **layer: Structure of all matrices and its options, and further arguments of :class:`HGT`.

    Raises:
        PhmrunError: Sizes, groups and structures that do not go together.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        width: int,
        expansion: int,
        depth: int,
        *,
        mapping: nn.Module | None = None,
        unit: nn.Module | None = None,
        reduce: bool = True,
        connection: Connection = "mixer",
        norm: bool = False,
        bias: bool = True,
        **layer: Any,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        settings = {name: layer.pop(name) for name in HGT_SETTINGS if name in layer}
        self.mapping = AdaptiveInput(num_embeddings, width, (), **layer) if mapping is None else mapping
        if unit is None:
            unit = HGT(width, expansion, depth, connection=connection, norm=norm, bias=bias, **settings, **layer)
        else:
            connection, reduce, norm = "plain", False, False
        self.expand, self.connection = cast(HGT, unit), connection
        reduced = self.expand.out_features + (width if connection in READ_LAST else 0)
        self.reduce = Linear(reduced, embedding_dim, bias, **layer) if reduce else None
        self.norm = nn.LayerNorm(embedding_dim) if reduce and norm else nn.Identity()
        if not reduce:
            self.embedding_dim = self.expand.out_features
        self.reset_parameters()
        # Not a buffer: the table follows from the parameters and does not belong in checkpoints.
        self._table: Tensor | None = None
        self._table_of: list[tuple[int, int]] = []

    def reset_parameters(self, std: float | None = None) -> None:
        """Set the gain of the last layer norm to ``std``, default 1/√m.

        Without that norm, do nothing. The maps and the mapping are not initialized again.
        """
        if isinstance(self.norm, nn.LayerNorm):
            nn.init.constant_(self.norm.weight, self.embedding_dim**-0.5 if std is None else std)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of token numbers, ``[…] -> […, embedding_dim]``.

        The cached table is read in evaluation with gradients disabled; otherwise each distinct token is computed once.
        """
        if not self.training and not torch.is_grad_enabled():
            return F.embedding(tokens, self._current_table())
        distinct, places = tokens.unique(return_inverse=True)  # embed repeated tokens once
        return F.embedding(places, self.embed(distinct))

    def embed(self, tokens: Tensor) -> Tensor:
        """Compute embeddings without the cached table, ``[tokens] -> [tokens, embedding_dim]``.

        They are the expanded numbers, reduced and normalized if the settings say so. "mixer", "concat" and "end" append
        the n numbers before the reduction.
        """
        inputs = self.mapping(tokens)
        hidden = self.expand(inputs)
        if self.reduce is None:
            return hidden
        if self.connection in READ_LAST:
            hidden = torch.cat([hidden, inputs], 1)
        return self.norm(self.reduce(hidden))

    @property
    def weight(self) -> Tensor:
        """Table of all embeddings ``[num_embeddings, embedding_dim]``.

        It is computed on each access, 16,384 tokens at a time.
        """
        device = next(self.parameters()).device
        return torch.cat([self.embed(part) for part in torch.arange(self.num_embeddings, device=device).split(CHUNK)])

    def plain(self) -> nn.Embedding:
        """Return the table as an ``nn.Embedding`` without gradient."""
        with torch.no_grad():
            return nn.Embedding.from_pretrained(self.weight)

    def train(self, mode: bool = True) -> "DeFINE":
        """Set training or evaluation mode; both drop the cached table."""
        self._table = None
        return super().train(mode)

    def _current_table(self) -> Tensor:
        """Return the cached table, computed if it is missing or outdated.

        It is outdated if a parameter was replaced or changed in place. It is computed without autocast.
        """
        # torch counts in-place changes, except of parameters that were created in inference mode.
        versions = [(id(part), 0 if part.is_inference() else part._version) for part in self.parameters()]
        if self._table is None or versions != self._table_of:
            with torch.autocast(next(self.parameters()).device.type, enabled=False):
                self._table = self.weight
            self._table_of = versions
        return self._table

    def _apply(self, fn: Any, recurse: bool = True) -> "DeFINE":
        """Convert the module as ``nn.Module`` does, and drop the cached table."""
        self._table = None
        return super()._apply(fn, recurse)
