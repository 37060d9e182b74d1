"""Multi-head attention over any structure, on torch's scaled-dot-product kernel."""

from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.kernels.attention import attend
from phmrun.layers.linear import Linear, glorot_std

Maps = Literal["joint", "separate"]


class MultiheadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2).

    softmax(Q Kᵀ / √head_width) V per head, then the output map.

    Args:
        embed_dim: Size of an input vector, and of an output vector.
        num_heads: Number of heads; divides ``inner_dim``.
        dropout: Share of attention weights dropped in training.
        bias: Add biases to the four maps.
        maps: "joint": Q, K and V are one ``[3·inner, embed]`` matrix (Φ in Zhang et al. 2021, section 3.2);
            "separate": three ``[inner, embed]`` matrices.
        inner_dim: Width of queries, keys and values over all heads; ``embed_dim`` unless given.
        output_dim: Size of an output vector; ``embed_dim`` unless given.
        structure: Name of the structure of all maps.
        **options: Its options.

    Raises:
        PhmrunError: The heads do not divide the width, or the structure does not fit.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        maps: Maps = "joint",
        inner_dim: int | None = None,
        output_dim: int | None = None,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        inner = inner_dim or embed_dim
        if inner % num_heads:
            raise PhmrunError(f"{num_heads} heads do not divide the attention width {inner}")
        self.embed_dim = embed_dim
        self.inner_dim = inner
        self.num_heads = num_heads
        self.dropout = dropout
        std = glorot_std(embed_dim, inner)
        sizes = [3 * inner] if maps == "joint" else [inner] * 3
        self.project = nn.ModuleList(Linear(embed_dim, size, bias, structure=structure, **options) for size in sizes)
        self.output = Linear(inner, output_dim or embed_dim, bias, structure=structure, **options)
        for linear in (*self.project, self.output):
            linear.reset_parameters(std, zero_bias=True)

    def forward(
        self, inputs: Tensor, memory: Tensor | None = None, *, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Attend from ``inputs`` to ``memory``, or to ``inputs`` without one.

        Args:
            inputs: ``[batch, length, embed_dim]``.
            memory: ``[batch, memory_length, embed_dim]``; ``inputs`` unless given.
            mask: Broadcasts to ``[batch, heads, length, memory_length]``: booleans, True for visible positions, or
                numbers that are added to the scores.
            causal: Restrict each position to itself and earlier ones.

        Returns:
            ``[batch, length, output_dim]``.
        """
        query, key, value = self.queries_keys_values(inputs, memory)
        dropout = self.dropout if self.training else 0.0
        context = attend(query, key, value, mask, dropout, causal=causal)
        return self.output(context.transpose(1, 2).flatten(2))

    def queries_keys_values(self, inputs: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries ``[batch, heads, length, head_width]``, keys and values.

        Keys and values come from ``memory`` and have its length, or from ``inputs`` if it is None. With a memory, a
        dense joint map is split; a factored one is applied to both, and the parts that are not needed are dropped.
        """
        if len(self.project) == 3:
            others = inputs if memory is None else memory
            sources = zip(self.project, (inputs, others, others), strict=True)
            query, key, value = (project(source) for project, source in sources)
        elif memory is None:
            query, key, value = self.project[0](inputs).chunk(3, dim=-1)
        else:
            joint: Linear = self.project[0]  # type: ignore[assignment]
            sizes = [self.inner_dim, 2 * self.inner_dim]
            # Applied factors compute all three parts anyway; slice the outputs.
            if not hasattr(joint, "weight") or getattr(joint, "application", "dense") == "factored":
                query, both = joint(inputs)[..., : self.inner_dim], joint(memory)[..., self.inner_dim :]
            else:
                weights = joint.weight.split(sizes)
                biases = (None, None) if joint.bias is None else joint.bias.split(sizes)
                query, both = F.linear(inputs, weights[0], biases[0]), F.linear(memory, weights[1], biases[1])
            key, value = both.chunk(2, dim=-1)
        return self.split(query), self.split(key), self.split(value)

    def split(self, vectors: Tensor) -> Tensor:
        """Return a view by heads.

        Shapes: ``[batch, length, inner] -> [batch, heads, length, head_width]``.
        """
        return vectors.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
