"""Transformer encoder for sentence classification: agreement (Zhang et al. 2021, section 4.4)."""

import math
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from phmrun.kernels.dropout import dropout
from phmrun.layers import FeedForward, MultiheadAttention, build_embedding
from phmrun.layers.network import Structures
from phmrun.models.positions import SinusoidalPositions
from phmrun.models.sentences import ClassScores, Sentences, pooled
from phmrun.models.transformer import EncoderLayer, Sublayer, build_norm
from phmrun.tasks.sva.config import AgreementOptions


class EncoderClassifier(nn.Module):
    """Encoder with classifier softmax(W pool_t encoder(x)_t + b).

    Args:
        options: Section of the configuration.
        sizes: Entries of the vocabulary, and number of classes.
        structures: Options of ``layer``, all maps in the blocks; of ``embedding``; of ``output``.

    Raises:
        PhmrunError: Sizes and structures do not match.
    """

    options: ClassVar[type[AgreementOptions]] = AgreementOptions

    def __init__(self, options: AgreementOptions, sizes: Sequence[int], structures: Structures) -> None:
        super().__init__()
        vocabulary, classes = sizes
        layer, embedding, output = (structures.get(place, {}) for place in ("layer", "embedding", "output"))
        width, dropout, norm = options.width, options.dropout, options.norm
        self.width, self.dropout, self.word_dropout = width, dropout, options.word_dropout
        self.pooling = options.pooling

        def encoder_layer() -> EncoderLayer:
            """Build a layer of self-attention and feed-forward block."""
            rest = (options.heads, options.attention_dropout, options.bias)
            attention = MultiheadAttention(width, *rest, maps=options.attention_maps, **layer)
            feedforward = FeedForward(width, options.feedforward, options.activation_dropout, **layer)
            return EncoderLayer(*(Sublayer(block, width, norm, dropout) for block in (attention, feedforward)))

        self.encoder = nn.ModuleList(encoder_layer() for _ in range(options.layers))
        self.encoder_norm = build_norm("layer", width) if norm == "pre" else nn.Identity()
        self.positions = SinusoidalPositions(width)
        self.embedding = build_embedding(vocabulary, width, **embedding)
        self.output = ClassScores((1 + options.pooling.count("-")) * width, classes, **output)
        # forward multiplies by √width, so that words have unit variance.
        self.embedding.reset_parameters(width**-0.5)  # type: ignore[operator]

    def forward(self, sentences: Sentences) -> Tensor:
        """Return the logits of the classes, ``[batch, classes]``.

        Words times √width plus positions go through the encoder, are pooled over each sentence, and are classified. In
        training, whole words and other units are dropped.
        """
        tokens = sentences.tokens
        words = self.embedding(tokens) * math.sqrt(self.width)
        words = dropout(words, self.word_dropout, self.training, along=-1)
        hidden = dropout(words + self.positions(tokens.shape[1]), self.dropout, self.training)
        for layer in self.encoder:
            hidden = layer(hidden, sentences.mask)
        return self.output(pooled(self.encoder_norm(hidden), sentences.lengths, self.pooling))
