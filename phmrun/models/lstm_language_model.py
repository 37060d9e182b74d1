"""Language models of stacked LSTMs: that of Mehta et al. 2020 on WikiText-103, and AWD-LSTM (Merity et al. 2018)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import LSTM
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.lstm import GateMapping, State
from phmrun.models.word_tables import build_word_tables


class LSTMLanguageModel(nn.Module):
    """Word vectors, LSTMs of widths ``hidden`` and then ``width``, and a softmax tied to the word vectors.

    Args:
        vocabulary: Vocabulary entries, in order of falling frequency.
        width: Size of a word vector, and of the last LSTM's outputs.
        hidden: Sizes of the LSTMs before the last.
        cutoffs: See :func:`build_word_tables`, as the next four.
        div_value: Factor by which rarer clusters' vectors are narrower.
        narrow: Width of the first cluster's vectors.
        bias: Whether words have output biases.
        define: Arguments of DeFINE.
        dropout: Share of the outputs of the LSTMs but the last dropped, the same at all time steps.
        input_dropout: Share of input vectors dropped likewise.
        output_dropout: Share of the last outputs dropped likewise.
        word_dropout: Share of the vocabulary whose vectors are zero in a batch.
        weight_dropout: Share of recurrent weights dropped.
        maps: LSTM gates as eight maps ("gate") or two ("stacked").
        layer: Structure of the LSTMs' maps and its options.
        embedding: The same for the word vectors.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        hidden: Sequence[int] = (1024, 1024, 1024),
        *,
        cutoffs: Sequence[int] = (),
        div_value: float = 4.0,
        narrow: int | None = None,
        bias: bool = False,
        define: Mapping[str, Any] | None = None,
        dropout: float = 0.1,
        input_dropout: float = 0.1,
        output_dropout: float = 0.1,
        word_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        maps: GateMapping = "gate",
        layer: Mapping[str, Any] | None = None,
        embedding: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.word_dropout, self.output_dropout = word_dropout, output_dropout
        tables = build_word_tables(
            vocabulary,
            width,
            cutoffs=cutoffs,
            div_value=div_value,
            narrow=narrow,
            bias=bias,
            define=define,
            embedding=embedding,
        )
        self.embedding = tables.embedding
        self.define = tables.define
        sizes = [tables.width, *hidden, width]
        self.context = nn.ModuleList(
            LSTM(
                *pair,
                batch_first=True,
                bias_vectors=2,
                maps=maps,
                variational=True,
                input_dropout=dropout if number else input_dropout,
                weight_dropout=weight_dropout,
                **(layer or {}),
            )
            for number, pair in enumerate(itertools.pairwise(sizes))
        )
        self.output = tables.output

    def forward(self, tokens: Tensor, states: Sequence[State] | None = None) -> tuple[Tensor, list[State]]:
        """Hidden vectors that predict the next words.

        Args:
            tokens: ``[batch, length]``.
            states: h and c of each LSTM after the text before; ``None`` at its beginning.

        Returns:
            ``[batch, length, width]``, and the states after these tokens, detached.
        """
        hidden = self._words(tokens)
        after = []
        for number, lstm in enumerate(self.context):
            hidden, (h, c) = lstm(hidden, None if states is None else states[number])
            after.append((h.detach(), c.detach()))
        if self.training and self.output_dropout:
            hidden = hidden * F.dropout(torch.ones_like(hidden[:, :1]), self.output_dropout)
        return hidden, after

    def loss(self, hidden: Tensor, targets: Tensor) -> CrossEntropy:
        """Summed over ``targets [batch, length]``, in nats."""
        return cast(CrossEntropy, self.output(hidden, targets))

    def _words(self, tokens: Tensor) -> Tensor:
        vectors = self.embedding(tokens) if self.define is None else self.define(tokens)
        if not (self.training and self.word_dropout):
            return vectors
        kept = F.dropout(vectors.new_ones(self.embedding.num_embeddings, 1), self.word_dropout)
        return vectors * kept[tokens]


def awd_lstm(
    vocabulary: int,
    width: int = 400,
    hidden: Sequence[int] = (1150, 1150),
    *,
    narrow: int | None = None,
    define: Mapping[str, Any] | None = None,
    dropout: float = 0.3,
    input_dropout: float = 0.4,
    output_dropout: float = 0.4,
    word_dropout: float = 0.1,
    weight_dropout: float = 0.5,
    maps: GateMapping = "gate",
    layer: Mapping[str, Any] | None = None,
    embedding: Mapping[str, Any] | None = None,
) -> LSTMLanguageModel:
    """AWD-LSTM with the sizes and dropouts of its authors for the Penn Treebank; see :class:`LSTMLanguageModel`."""
    return LSTMLanguageModel(
        vocabulary,
        width,
        hidden,
        narrow=narrow,
        bias=True,
        define=define,
        dropout=dropout,
        input_dropout=input_dropout,
        output_dropout=output_dropout,
        word_dropout=word_dropout,
        weight_dropout=weight_dropout,
        maps=maps,
        layer=layer,
        embedding=embedding,
    )
