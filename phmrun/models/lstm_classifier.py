"""An LSTM that reads one sentence, or two, and classifies what it read.

Two sentences: natural language inference (Zhang et al. 2021, section 4.1). One: the number of a verb after a prefix.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import LSTM, build_embedding
from phmrun.layers.embedding import Embedding
from phmrun.layers.lstm import Cell, GateMapping, outputs
from phmrun.models.sentences import ClassScores, Pooling, Sentences, pooled

Matching = Literal["concat", "full"]


class LSTMClassifier(nn.Module):
    """softmax(MLP(pool_t h_t)), h the LSTM's outputs; two sentences' pooled vectors u and v are matched first.

    Args:
        sentences: Sentences of an item, all read by the same LSTM.
        width: Size of an input vector of the LSTM.
        train_embedding: Whether the words' own vectors are learnt; the paper's are GloVe's and stay.
        hidden: Size of the hidden vector; ``layers``, ``bidirectional``, ``cell`` and ``maps`` as of :class:`LSTM`.
        pooling: How the outputs along a sentence become one vector.
        matching: What the MLP gets of two sentences: [u; v] ("concat", Zhang et al. 2021), or [u; v; |u - v|; u * v]
            ("full", Mou et al. 2016, equation 6).
        mlp: Size of the hidden vectors of the MLP.
        mlp_layers: Hidden layers of the MLP.
        dropout: Share of the LSTM's inputs, and of the inputs of the MLP's maps, dropped in training.
        word_dropout: Share of words whose whole vector is dropped.
        layer: Structure of the LSTM's maps and its options.
        embedding: Structure of the word vectors, or an embedding of several matrices, and its options.
        output: The same for the MLP.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    def __init__(
        self,
        vocabulary: int,
        classes: int = 3,
        *,
        sentences: int = 2,
        width: int = 300,
        train_embedding: bool = True,
        hidden: int = 300,
        layers: int = 1,
        bidirectional: bool = False,
        pooling: Pooling = "max-mean",
        matching: Matching = "concat",
        mlp: int = 300,
        mlp_layers: int = 2,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        cell: Cell = "standard",
        maps: GateMapping = "gate",
        layer: Mapping[str, Any] | None = None,
        embedding: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.matching: Matching = matching
        self.sentences = sentences  # what its export graph takes
        self.dropout, self.word_dropout = dropout, word_dropout
        self.embedding = build_embedding(vocabulary, width, **(embedding or {}))
        for table in own_vectors(self.embedding):
            table.requires_grad_(train_embedding)
        self.lstm = LSTM(
            width,
            hidden,
            layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
            cell=cell,
            maps=maps,
            **(layer or {}),
        )
        # A pooling of two parts, "max-mean", puts two vectors side by side.
        summary = (1 + pooling.count("-")) * hidden * self.lstm.directions
        parts = 4 if matching == "full" else sentences
        self.output = ClassScores(parts * summary, classes, [mlp] * mlp_layers, dropout, **(output or {}))

    def forward(self, *sentences: Sentences) -> Tensor:
        """Logits of the classes, ``[batch, classes]``.

        Args:
            *sentences: The first sentence of each item, then the second, if there is one.
        """
        # One run over all sentences, so that the gate matrices are built once and one kernel reads the whole batch.
        length = max(part.tokens.shape[1] for part in sentences)
        tokens = torch.cat([F.pad(part.tokens, (0, length - part.tokens.shape[1])) for part in sentences])
        summary = self.summarise(tokens, torch.cat([part.lengths for part in sentences]))
        parts = summary.chunk(len(sentences))
        if self.matching == "full":
            u, v = parts
            parts = (u, v, (u - v).abs(), u * v)
        scores: Tensor = self.output(torch.cat(parts, dim=1))
        return scores

    def summarise(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The LSTM's outputs, pooled, ``[sentences, length] -> [sentences, summary]``."""
        vectors = F.dropout(self.embedding(tokens), self.dropout, self.training)
        if self.word_dropout and self.training:
            vectors = vectors * F.dropout(vectors.new_ones(*tokens.shape, 1), self.word_dropout)
        return pooled(outputs(self.lstm, vectors, lengths), lengths, self.pooling)


def own_vectors(embedding: nn.Module) -> list[Embedding]:
    """The tables of the words' own vectors in an embedding, which may map them further."""
    return [module for module in embedding.modules() if isinstance(module, Embedding)]
