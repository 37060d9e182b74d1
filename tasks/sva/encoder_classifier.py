"""A Transformer encoder that classifies sentences: subject–verb agreement (Zhang et al. 2021, section 4.4)."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import FeedForward, MultiheadAttention, build_embedding
from phmrun.layers.attention import Maps
from phmrun.models.sentences import ClassScores, Pooling, Sentences, pooled
from phmrun.models.transformer import EncoderLayer, Norm, SinusoidalPositions, Sublayer, build_norm
from phmrun.tasks.sva.config import AgreementExperiment


class EncoderClassifier(nn.Module):
    """softmax(W pool_t encoder(x)_t + b).

    Args:
        width: Size of the residual stream and of the embeddings.
        inner: Hidden size of the feed-forward blocks.
        norm: "pre" (with a final norm) or "post".
        pooling: How the outputs along a sentence become one vector.
        dropout: Share of embeddings and of block outputs dropped in training, as ``word_dropout`` of whole words,
            ``attention_dropout`` of attention weights and ``activation_dropout`` of feed-forward activations.
        maps: Q, K and V as one map ("joint") or three ("separate").
        layer: Structure of every map in the blocks and its options; ``embedding`` and ``output`` likewise.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    def __init__(
        self,
        vocabulary: int,
        classes: int = 2,
        *,
        width: int = 128,
        inner: int = 512,
        heads: int = 4,
        layers: int = 2,
        norm: Norm = "pre",
        pooling: Pooling = "mean",
        dropout: float = 0.1,
        word_dropout: float = 0.0,
        attention_dropout: float = 0.1,
        activation_dropout: float = 0.1,
        maps: Maps = "joint",
        attention_bias: bool = True,
        layer: Mapping[str, Any] | None = None,
        embedding: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.width, self.dropout, self.word_dropout = width, dropout, word_dropout
        self.pooling: Pooling = pooling
        layer = layer or {}

        def encoder_layer() -> EncoderLayer:
            attention = MultiheadAttention(width, heads, attention_dropout, attention_bias, maps=maps, **layer)
            feedforward = FeedForward(width, inner, activation_dropout, **layer)
            return EncoderLayer(*(Sublayer(block, width, norm, dropout) for block in (attention, feedforward)))

        self.encoder = nn.ModuleList(encoder_layer() for _ in range(layers))
        self.encoder_norm = build_norm("layer", width) if norm == "pre" else nn.Identity()
        self.positions = SinusoidalPositions(width)
        self.embedding = build_embedding(vocabulary, width, **(embedding or {}))
        self.output = ClassScores((1 + pooling.count("-")) * width, classes, **(output or {}))
        # forward multiplies by √width: words then have unit variance, beside positions between -1 and 1.
        self.embedding.reset_parameters(width**-0.5)  # type: ignore[operator]

    def forward(self, sentences: Sentences) -> Tensor:
        """Logits of the classes, ``[batch, classes]``."""
        tokens = sentences.tokens
        words = self.embedding(tokens) * math.sqrt(self.width)
        if self.word_dropout and self.training:
            words = words * F.dropout(words.new_ones(*tokens.shape, 1), self.word_dropout)
        hidden = F.dropout(words + self.positions(tokens.shape[1]), self.dropout, self.training)
        for layer in self.encoder:
            hidden = layer(hidden, sentences.mask)
        scores: Tensor = self.output(pooled(self.encoder_norm(hidden), sentences.lengths, self.pooling))
        return scores


def build(config: AgreementExperiment, words: int, classes: int) -> EncoderClassifier:
    """The encoder that a config describes."""
    model = config.model
    dropouts = {"dropout", "word_dropout", "attention_dropout", "activation_dropout"}
    return EncoderClassifier(
        words,
        classes,
        inner=model.feedforward,
        maps=model.attention_maps,
        attention_bias=model.bias,
        **model.model_dump(include={"width", "heads", "layers", "norm", "pooling", *dropouts}),
        **config.structures,
    )
