"""An LSTM that reads one sentence, or two, and classifies what it read.

Two sentences: natural language inference (Zhang et al. 2021, section 4.1). One: the number of a verb after a prefix.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import LSTM, build_embedding
from phmrun.layers.embedding import Embedding
from phmrun.layers.lstm import outputs
from phmrun.layers.network import Structures
from phmrun.models.options import LSTMClassifierOptions
from phmrun.models.sentences import ClassScores, Sentences, pooled


class LSTMClassifier(nn.Module):
    """softmax(MLP(pool_t h_t)), h the LSTM's outputs; two sentences' pooled vectors u and v are matched first.

    Args:
        options: Its section of the configuration; every option is described there. The words' own vectors are learned
            unless ``train_embedding`` is false.
        sizes: Entries of the vocabulary, and number of classes.
        structures: Structure and options of ``layer``, the LSTM's maps; ``embedding``, the word vectors, also of
            several matrices; ``output``, the MLP.
        sentences: Sentences of an item, all read by the same LSTM.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
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
        self.sentences = sentences  # what its export graph takes
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
        # A pooling of two parts, "max-mean", puts two vectors side by side.
        summary = (1 + options.pooling.count("-")) * options.hidden * self.lstm.directions
        parts = 4 if options.matching == "full" else sentences
        mlp, output = [options.mlp] * options.mlp_layers, structures.get("output", {})
        self.output = ClassScores(parts * summary, classes, mlp, options.dropout, **output)

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
