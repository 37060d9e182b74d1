"""LSTM classifier of a sentence or a pair of sentences.

Pairs: natural language inference (Zhang et al. 2021, section 4.1). Single sentences: number agreement of a verb after a
prefix.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.dropout import dropout, dropout_mask
from phmrun.layers import LSTM, build_embedding
from phmrun.layers.embedding import Embedding
from phmrun.layers.lstm import outputs
from phmrun.layers.network import Structures
from phmrun.models.options import LSTMClassifierOptions
from phmrun.models.sentences import ClassScores, Sentences, pooled


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
        self,
        options: LSTMClassifierOptions,
        sizes: Sequence[int],
        structures: Structures = MappingProxyType({}),
        *,
        sentences: int = 2,
    ) -> None:
        super().__init__()
        vocabulary, classes = sizes
        self.pooling, self.matching = options.pooling, options.matching
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
        scores: Tensor = self.output(torch.cat(parts, dim=1))
        return scores

    def summarise(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the pooled outputs of the LSTM.

        Shapes: ``[sentences, length] -> [sentences, summary]``; ``lengths`` is ``[sentences]``. In training, features
        of the word vectors (rate ``dropout``) and whole words (``word_dropout``) are dropped.
        """
        vectors = dropout(self.embedding(tokens), self.dropout, self.training)
        if self.word_dropout and self.training:
            vectors = vectors * dropout_mask(vectors[..., :1], self.word_dropout)
        return pooled(outputs(self.lstm, vectors, lengths), lengths, self.pooling)


def own_vectors(embedding: nn.Module) -> list[Embedding]:
    """Return the tables of word vectors in an embedding: its ``Embedding`` modules.

    Maps that follow them are left out. An adaptive embedding has a table for each cluster of words.
    """
    return [module for module in embedding.modules() if isinstance(module, Embedding)]
