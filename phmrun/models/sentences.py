"""Padded batches of sentences, pooling to sentence vectors, class scores over any structure, the LSTM classifier."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.dropout import dropout
from phmrun.layers import LSTM, Linear, build_embedding
from phmrun.layers.embedding import Embedding
from phmrun.layers.lstm import outputs
from phmrun.layers.network import Structures
from phmrun.models.options import LSTMClassifierOptions
from phmrun.registry import STRUCTURES
from phmrun.text.vocabulary import EOS, PAD


class Sentences(NamedTuple):
    """Batch of sentences, padded on the right.

    Attributes:
        tokens: Token numbers ``[batch, length]``.
        lengths: Tokens per sentence ``[batch]``, without padding.
        mask: ``[batch, 1, 1, length]``, True at tokens; None without padding.
    """

    tokens: Tensor
    lengths: Tensor
    mask: Tensor | None = None

    def to(self, device: torch.device | str) -> "Sentences":
        """Return the batch with its tensors on a device."""
        mask = None if self.mask is None else self.mask.to(device)
        return Sentences(self.tokens.to(device), self.lengths.to(device), mask)


def pooled(vectors: Tensor, lengths: Tensor, pooling: str) -> Tensor:
    """Pool the vectors of each sentence to one vector.

    Args:
        vectors: ``[sentences, length, width]``.
        lengths: Tokens of each sentence, ``[sentences]``.
        pooling: Mean, maximum, last token, or maximum and mean concatenated.

    Returns:
        ``[sentences, width]``, or ``[sentences, 2 · width]`` for "max-mean".
    """
    inside = (torch.arange(vectors.shape[1], device=lengths.device) < lengths[:, None])[..., None]
    ways: dict[str, Callable[[], Tensor]] = {
        "max": lambda: vectors.masked_fill(~inside, float("-inf")).amax(1),
        "mean": lambda: (vectors * inside).sum(1) / lengths[:, None],
        "last": lambda: vectors[torch.arange(lengths.shape[0], device=lengths.device), lengths - 1],
    }
    return torch.cat([ways[way]() for way in pooling.split("-")], dim=1)


def batch_of(rows: Sequence[NDArray[Any]]) -> Sentences:
    """Build a padded batch of token ids, at least one row.

    An end token follows each sentence, then padding; lengths include the end token. The mask is ``None`` if all
    sentences have the same length.
    """
    lengths = np.array([len(row) + 1 for row in rows], dtype=np.int64)
    tokens = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
        tokens[number, len(row)] = EOS
    mask = None
    if lengths.min() < lengths.max():
        mask = torch.from_numpy(np.arange(tokens.shape[1]) < lengths[:, None])[:, None, None, :]
    return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths), mask)


class ClassScores(nn.Module):
    """Multilayer perceptron W · relu(W_m · … relu(W_1 x + b_1) … + b_m) + b for class scores.

    If a structure cannot build a matrix with ``classes`` rows, the last map has the next possible number of rows, and
    the additional outputs are discarded.

    Args:
        in_features: Size of an input vector.
        classes: Number of classes.
        hidden: Sizes of the hidden layers.
        dropout: Share of each map's inputs dropped in training.
        **layer: Structure of all maps, and its options.

    Raises:
        PhmrunError: Sizes and structure do not fit together.
    """

    def __init__(
        self, in_features: int, classes: int, hidden: Sequence[int] = (), dropout: float = 0.0, **layer: Any
    ) -> None:
        super().__init__()
        self.classes, self.dropout = classes, dropout
        sizes = [in_features, *hidden]
        self.rows = buildable_rows(classes, sizes[-1], **layer)
        sizes.append(self.rows)
        self.maps = nn.ModuleList(Linear(wide, narrow, **layer) for wide, narrow in itertools.pairwise(sizes))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the class scores (logits), ``[batch, in_features] -> [batch, classes]``.

        ReLU is between the maps, dropout before each, in training only. Further outputs of the last map are cut off.
        """
        hidden = inputs
        for number, linear in enumerate(self.maps):
            if number:
                hidden = F.relu(hidden)
            hidden = linear(dropout(hidden, self.dropout, self.training))
        return hidden[:, : self.classes]


def buildable_rows(rows: int, columns: int, structure: str = "dense", **options: Any) -> int:
    """Return the smallest number of rows that a structure can build.

    It is at least ``rows``. Numbers up to max(rows, columns) are tried; if none fits, ``rows`` is returned.
    """
    misfit = STRUCTURES.get(structure).misfit
    fitting = (more for more in range(rows, max(rows, columns) + 1) if misfit(more, columns, **options) is None)
    return next(fitting, rows)


class LSTMClassifier(nn.Module):
    """LSTM classifier softmax(MLP(pool_t h_t)), with h the outputs of the LSTM.

    The pooled vectors u and v of two sentences are concatenated, or matched as [u, v, |u - v|, u ∘ v].

    Args:
        options: Model section of the configuration. Word vectors are trained unless ``train_embedding`` is False.
        sizes: Size of the vocabulary, and number of classes.
        structures: Structure and options of ``layer`` (the LSTM), ``embedding`` (the word vectors) and ``output``
            (the MLP).
        sentences: Number of sentences of an item, all read by the same LSTM.

    Raises:
        PhmrunError: Sizes and structures do not fit together.
    """

    options: ClassVar[type[LSTMClassifierOptions]] = LSTMClassifierOptions

    def __init__(
        self, options: LSTMClassifierOptions, sizes: Sequence[int], structures: Structures, *, sentences: int = 2
    ) -> None:
        super().__init__()
        vocabulary, classes = sizes
        self.width, self.pooling, self.matching = options.hidden, options.pooling, options.matching
        self.dropout, self.word_dropout = options.dropout, options.word_dropout
        self.embedding = build_embedding(vocabulary, options.width, **structures.get("embedding", {}))
        for table in own_vectors(self.embedding):
            table.requires_grad_(options.train_embedding is not False)
        self.lstm = LSTM(
            options.width,
            options.hidden,
            options.layers,
            batch_first=True,
            dropout=options.dropout if options.layers > 1 else 0.0,
            bidirectional=options.bidirectional,
            cell=options.cell,
            maps=options.gate_maps,
            **structures.get("layer", {}),
        )
        # The pooling "max-mean" concatenates two vectors.
        summary = (1 + options.pooling.count("-")) * options.hidden * self.lstm.directions
        parts = 4 if options.matching == "full" else sentences
        mlp, output = [options.mlp] * options.mlp_layers, structures.get("output", {})
        self.output = ClassScores(parts * summary, classes, mlp, options.dropout, **output)

    def forward(self, *sentences: Sentences) -> Tensor:
        """Return the logits of the classes, ``[batch, classes]``.

        The summaries u and v of a pair are concatenated; with "full" matching, abs(u - v) and the element-wise product
        u · v follow them.

        Args:
            *sentences: Batch of the first sentences of all items; for pairs then that of the second ones.
        """
        # One LSTM call for all sentences, so that the gate matrices are built once.
        length = max(part.tokens.shape[1] for part in sentences)
        tokens = torch.cat([F.pad(part.tokens, (0, length - part.tokens.shape[1])) for part in sentences])
        summary = self.summarise(tokens, torch.cat([part.lengths for part in sentences]))
        parts = summary.chunk(len(sentences))
        if self.matching == "full":
            u, v = parts
            parts = (u, v, (u - v).abs(), u * v)
        return self.output(torch.cat(parts, dim=1))

    def summarise(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the pooled outputs of the LSTM.

        Shapes: ``[sentences, length] -> [sentences, summary]``; ``lengths`` is ``[sentences]``. In training, features
        of the word vectors (rate ``dropout``) and whole words (``word_dropout``) are dropped.
        """
        vectors = dropout(self.embedding(tokens), self.dropout, self.training)
        vectors = dropout(vectors, self.word_dropout, self.training, along=-1)
        return pooled(outputs(self.lstm, vectors, lengths), lengths, self.pooling)


def own_vectors(embedding: nn.Module) -> list[Embedding]:
    """Return the tables of word vectors in an embedding: its ``Embedding`` modules.

    Maps that follow them are left out. An adaptive embedding has a table for each cluster of words.
    """
    return [module for module in embedding.modules() if isinstance(module, Embedding)]
