"""Adaptive input and output: clusters of words by frequency, rarer clusters with narrower vectors.

Tokens are numbered by decreasing frequency; cut-offs c_1 < c_2 < … divide the vocabulary into clusters. Cluster i has a
table of width ⌊w_0 / div_value^i⌋ and, if that is not the model's width, a projection to it.

Sources: Grave et al., "Efficient softmax approximation for GPUs", ICML 2017; Baevski and Auli, "Adaptive input
representations for neural language modeling", ICLR 2019 (inputs; tying). With ``div_value=1`` and a narrow ``width``
these are the projective embeddings of Dai et al., "Transformer-XL", ACL 2019.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers.cross_entropy import CHUNK, CrossEntropy, linear_cross_entropy
from phmrun.layers.embedding import Embedding
from phmrun.layers.linear import Linear, plain_linear


class Cluster(NamedTuple):
    """Cluster of tokens ``start`` … ``end`` - 1, with vectors of ``width`` numbers."""

    start: int
    end: int
    width: int

    @property
    def size(self) -> int:
        """Number of tokens."""
        return self.end - self.start

    def positions(self, tokens: Tensor) -> Tensor:
        """Return the ascending indices of ``tokens [positions]`` whose token is in the cluster."""
        return ((tokens >= self.start) & (tokens < self.end)).nonzero().squeeze(1)


def plan_clusters(size: int, cutoffs: Sequence[int], width: int, div_value: float) -> tuple[Cluster, ...]:
    """Return the clusters of a vocabulary.

    Args:
        size: Size of the vocabulary.
        cutoffs: First token of each cluster except the first.
        width: Width of the first cluster's vectors.
        div_value: Factor by which the vectors of each further cluster are narrower; widths are rounded down.

    Raises:
        PhmrunError: The cut-offs do not strictly increase between 0 and ``size``, both excluded. Or a width would be
            less than 1, or ``div_value`` is not positive.
    """
    bounds = [0, *cutoffs, size]
    if any(low >= high for low, high in itertools.pairwise(bounds)):
        raise PhmrunError(f"cut-offs must rise between 0 and the vocabulary size {size}, unlike {list(cutoffs)}")
    widths = [int(width / div_value**number) for number in range(len(bounds) - 1)] if div_value > 0 else [0]
    if widths[-1] < 1:
        raise PhmrunError(f"width {width} divided {len(cutoffs)} times by {div_value} leaves nothing")
    return tuple(Cluster(*bound, width) for bound, width in zip(itertools.pairwise(bounds), widths, strict=True))


class AdaptiveInput(nn.Module):
    """Embedding with narrower vectors for rarer words, projected to ``embedding_dim``.

    Args:
        num_embeddings: Size of the vocabulary, in order of decreasing frequency.
        embedding_dim: Size of an embedding vector.
        cutoffs: First token of each cluster except the first.
        div_value: Factor by which the vectors of each further cluster are narrower.
        width: Width of the first cluster's vectors; default: ``embedding_dim``.
        **layer: Structure of tables and projections, and its options.

    Raises:
        PhmrunError: Cut-offs out of order, or a structure that does not fit a cluster.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        *,
        width: int | None = None,
        **layer: Any,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.cutoffs, self.div_value = tuple(cutoffs), div_value
        self.clusters = plan_clusters(num_embeddings, cutoffs, width or embedding_dim, div_value)
        self.tables = nn.ModuleList(Embedding(cluster.size, cluster.width, **layer) for cluster in self.clusters)
        self.projections = _projections(self.clusters, embedding_dim, layer)
        self.reset_parameters()

    def reset_parameters(self, std: float | None = None) -> None:
        """Draw the tables with standard deviation ``std``, and the projections, in place.

        The default is 1/√embedding_dim. Projections are drawn with 1/√(their inputs), which preserves the variance.
        """
        for table in self.tables:
            table.reset_parameters(self.embedding_dim**-0.5 if std is None else std)  # type: ignore[operator]
        _reset_projections(self.projections)

    @property
    def weight(self) -> Tensor:
        """Dense table ``[num_embeddings, embedding_dim]`` of projected vectors, by token number.

        It is computed at each access, differentiably.
        """
        pairs = zip(self.tables, self.projections, strict=True)
        return torch.cat([projection(table.weight) for table, projection in pairs])

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors of token numbers, ``[…] -> […, embedding_dim]``.

        They are rows of the tables of the tokens' clusters, projected to ``embedding_dim``.
        """
        if len(self.clusters) == 1:
            return self.projections[0](self.tables[0](tokens))
        flat = tokens.reshape(-1)
        places = [cluster.positions(flat) for cluster in self.clusters]
        maps = zip(self.clusters, places, self.tables, self.projections, strict=True)
        parts = [projection(table(flat[place] - cluster.start)) for cluster, place, table, projection in maps]
        order = torch.cat(places)
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return torch.cat(parts)[back].view(*tokens.shape, self.embedding_dim)


class AdaptiveSoftmax(nn.Module):
    """Adaptive softmax over clusters of words.

    log p(v) = log p(cluster of v) + log p(v | cluster).

    The head is a softmax over the words of the first cluster and one class for each other cluster. The tail of a
    cluster is a softmax over its words, computed only for targets in the cluster.

    Args:
        in_features: Size of a hidden vector.
        n_classes: Size of the vocabulary, in order of decreasing frequency.
        cutoffs: First word of each cluster except the first.
        div_value: Factor by which the vectors of each further cluster are narrower.
        bias: Add biases to words and clusters.
        width: Width of the first cluster's vectors; default: ``in_features``.
        tied: Input whose clusters and tables are used here too, and its projections if its width is ``in_features``;
            ``cutoffs``, ``div_value`` and ``width`` are then ignored.
        **layer: Structure of untied tables and projections, and its options.

    Raises:
        PhmrunError: Cut-offs out of order, a structure that does not fit, or a tied input of another vocabulary.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int] = (),
        div_value: float = 4.0,
        bias: bool = False,
        *,
        width: int | None = None,
        tied: AdaptiveInput | None = None,
        **layer: Any,
    ) -> None:
        super().__init__()
        self.in_features, self.n_classes = in_features, n_classes
        if tied is not None and tied.num_embeddings != n_classes:
            words = tied.num_embeddings
            raise PhmrunError(f"an adaptive input of {words} words cannot be tied to an output of {n_classes}")
        shared = tied.projections if tied is not None and tied.embedding_dim == in_features else None
        if tied is None:
            self.clusters = plan_clusters(n_classes, cutoffs, width or in_features, div_value)
            maps = [layer] * len(self.clusters)
        else:
            self.clusters = tied.clusters
            # Structure objects instead of names, so that the parameters are shared.
            maps = [{"structure": table.structure} for table in tied.tables]
        self.projections = _projections(self.clusters, in_features, layer) if shared is None else shared
        pairs = zip(self.clusters, maps, strict=True)
        self.tables = nn.ModuleList(_map(cluster.width, cluster.size, bias, **settings) for cluster, settings in pairs)
        tails = len(self.clusters) - 1
        self.cluster_weight = nn.Parameter(torch.empty(tails, self.clusters[0].width)) if tails else None
        self.cluster_bias = nn.Parameter(torch.empty(tails)) if bias and tails else None
        # Vectors of words and clusters have variance 1/in_features, projections 1/(their inputs); shared ones stay.
        std = in_features**-0.5
        for table in self.tables:
            table.reset_parameters(std, zero_bias=True, shared=tied is not None)  # type: ignore[operator]
        if shared is None:
            _reset_projections(self.projections)
        if self.cluster_weight is not None:
            nn.init.normal_(self.cluster_weight, std=std)
        if self.cluster_bias is not None:
            nn.init.zeros_(self.cluster_bias)

    def forward(self, hidden: Tensor, targets: Tensor) -> CrossEntropy:
        """Return the sum of -log p(target) in nats, fused with the output maps.

        Args:
            hidden: ``[…, in_features]``.
            targets: Token numbers ``[…]``.

        Returns:
            Loss and negative log-likelihood, which are equal; only the loss has a gradient.
        """
        sums = [
            linear_cross_entropy(vectors, weight, bias, classes)
            for _, vectors, weight, bias, classes in self._clusters_of(hidden, targets)
        ]
        return CrossEntropy(*(torch.stack(parts).sum() for parts in zip(*sums, strict=True)))

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return -log p(target) of each position in nats, in the shape of ``targets``.

        Differentiable. A word outside the first cluster adds the terms of its cluster and of the word in it. See
        :meth:`forward` for the arguments.
        """
        total: Tensor | None = None
        for places, vectors, weight, bias, classes in self._clusters_of(hidden, targets):
            rows = zip(vectors.split(CHUNK), classes.split(CHUNK), strict=True)
            part = torch.cat(
                [F.cross_entropy(F.linear(row, weight, bias), wanted, reduction="none") for row, wanted in rows]
            )
            total = part if total is None else total.index_add(0, places, part)
        return cast(Tensor, total).view(targets.shape)

    def log_prob(self, hidden: Tensor) -> Tensor:
        """Return log-probabilities of the whole vocabulary in nats, by token number.

        ``[…, in_features] -> […, n_classes]``. Words outside the first cluster have the sum of the cluster's and their
        own.
        """
        head = F.linear(self._enter(0, hidden), *self._head()).log_softmax(-1)
        first = self.clusters[0].size
        parts = [head[..., :first]]
        for number in range(1, len(self.clusters)):
            table = self.tables[number]
            tail = F.linear(self._enter(number, hidden), table.weight, table.bias)  # type: ignore[arg-type]
            parts.append(tail.log_softmax(-1) + head[..., first + number - 1, None])
        return torch.cat(parts, dim=-1)

    def _clusters_of(
        self, hidden: Tensor, targets: Tensor
    ) -> Iterator[tuple[Any, Tensor, Tensor, Tensor | None, Tensor]]:
        """Yield the operands of the head, then of each tail.

        Each is (positions, vectors, weight, bias, classes), with vectors in the cluster's width. The head's class of a
        target in a tail is the cluster's; a tail counts classes from its own first word. Positions of the head are
        None: it has all. Those of a tail are the targets in its cluster, maybe none.
        """
        hidden, targets = hidden.reshape(-1, self.in_features), targets.reshape(-1)
        classes = targets
        places = [cluster.positions(targets) for cluster in self.clusters[1:]]
        for number, place in enumerate(places):
            classes = classes.index_fill(0, place, self.clusters[0].size + number)
        yield None, self._enter(0, hidden), *self._head(), classes
        for number, place in enumerate(places, start=1):
            table = self.tables[number]
            vectors = self._enter(number, hidden.index_select(0, place))
            yield place, vectors, table.weight, table.bias, targets[place] - self.clusters[number].start  # type: ignore[misc]

    def _enter(self, number: int, hidden: Tensor) -> Tensor:
        """Return hidden vectors in the width of a cluster.

        They are multiplied by the transposed projection, or unchanged if the widths are equal.
        """
        projection = self.projections[number]
        return hidden if isinstance(projection, nn.Identity) else F.linear(hidden, projection.weight.t())  # type: ignore[operator]

    def _head(self) -> tuple[Tensor, Tensor | None]:
        """Return weight and bias of the head: words, then one row per cluster.

        Words are those of the first cluster, rows those of the other clusters. The bias is None without biases.
        """
        table = self.tables[0]
        weight: Tensor = table.weight  # type: ignore[assignment]
        bias: Tensor | None = table.bias  # type: ignore[assignment]
        if self.cluster_weight is None:
            return weight, bias
        joined = torch.cat([weight, self.cluster_weight])
        return joined, None if bias is None or self.cluster_bias is None else torch.cat([bias, self.cluster_bias])


def _projections(clusters: Sequence[Cluster], width: int, layer: dict[str, Any]) -> nn.ModuleList:
    """Return a map without bias from each cluster's width to ``width``, in order.

    It is the identity if both are equal. ``layer`` is the structure of the maps with its options.
    """
    return nn.ModuleList(
        nn.Identity() if cluster.width == width else _map(cluster.width, width, False, **layer) for cluster in clusters
    )


def _map(inputs: int, outputs: int, bias: bool, **layer: Any) -> Linear:
    """Build a linear map with ``keeps_weight``, so that copies for inference contain W.

    Other code reads its W.
    """
    linear = Linear(inputs, outputs, bias, **layer)
    linear.keeps_weight = True
    return linear


def _reset_projections(projections: nn.ModuleList) -> None:
    """Draw the projections in place, with standard deviation 1/√(size of their inputs).

    The variance of their inputs is preserved. Identities are skipped.
    """
    for projection in projections:
        if isinstance(projection, Linear):
            projection.reset_parameters(projection.in_features**-0.5)


class TiedOutput(nn.Module):
    """Logits W Q h + b with W ``[words, width]`` tied to word vectors.

    Q is the identity for equal widths.

    Args:
        in_features: Size of a hidden vector h.
        words: Embedding whose tables and projections make up W.
        bias: Add ``b [words]``, initially zero.
        **structure: Structure of Q and its options.
    """

    def __init__(self, in_features: int, words: AdaptiveInput, bias: bool = False, **structure: Any) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, words.num_embeddings
        self.words = words
        same = in_features == words.embedding_dim
        self.project = None if same else Linear(in_features, words.embedding_dim, bias=False, **structure)
        self.bias = nn.Parameter(torch.zeros(words.num_embeddings)) if bias else None

    @property
    def weight(self) -> Tensor:
        """Dense word vectors W ``[words, width]``."""
        return self.words.weight

    def reduced(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors ``[…, r]`` and a matrix ``[words, r]``.

        Their product plus b is the output; ``inputs`` is ``[…, in_features]``. r is the table's width for a single
        cluster with a projection, otherwise the embedding's ``embedding_dim``.
        """
        inner = inputs if self.project is None else self.project(inputs)
        table, projection = self.words.tables[0], self.words.projections[0]
        if len(self.words.tables) > 1 or isinstance(projection, nn.Identity):
            return inner, self.words.weight
        return F.linear(inner, cast(Tensor, projection.weight).t()), cast(Tensor, table.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, ``[…, in_features] -> […, words]``."""
        return F.linear(*self.reduced(inputs), self.bias)

    def plain(self) -> nn.Sequential:
        """Return a sequence of linear maps with the same outputs.

        Q comes first, as the same module, unless it is the identity. W is built once; W and b get no gradient. A single
        cluster's projection and table stay two maps.
        """
        maps: list[nn.Module] = [] if self.project is None else [self.project]
        table, projection = self.words.tables[0], self.words.projections[0]
        weight = cast(Tensor, table.weight)
        if len(self.words.tables) > 1:
            weight = self.words.weight
        elif not isinstance(projection, nn.Identity):
            maps.append(plain_linear(cast(Tensor, projection.weight).t().contiguous(), None))
        return nn.Sequential(*maps, plain_linear(weight, self.bias))
