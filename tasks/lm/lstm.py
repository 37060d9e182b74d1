"""Language models of stacked LSTMs: that of Mehta et al. 2020 on WikiText-103, and AWD-LSTM (Merity et al. 2018)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import LSTM
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.lstm import GateMapping
from phmrun.tasks.lm.config import LanguageModelExperiment
from phmrun.tasks.lm.language_model import Reading, State, build_word_tables


class LSTMLanguageModel(nn.Module):
    """Word vectors, LSTMs of widths ``hidden`` and then ``width``, and a softmax tied to the word vectors.

    AWD-LSTM is this one with output biases and with dropout in all its places.

    Args:
        vocabulary: Vocabulary entries, in order of falling frequency.
        width: Size of a word vector, and of the last LSTM's outputs; ``hidden``: of the LSTMs before it.
        bias: Whether words have output biases; ``tie``: whether the output shares the word vectors.
        dropout: Share of the outputs of the LSTMs but the last dropped, the same at all time steps; likewise
            ``input_dropout`` of input vectors and ``output_dropout`` of the last outputs.
        word_dropout: Share of the vocabulary whose vectors are zero in a batch.
        weight_dropout: Share of recurrent weights dropped.
        maps: LSTM gates as eight maps ("gate") or two ("stacked").
        vector_range: Word vectors begin uniform in ± this; ``None``: as their embedding does.
        layer: Structure of the LSTMs' maps and its options; ``output`` likewise of the output's own maps.
        embedding: A structure or an embedding for the word vectors, and its options.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        hidden: Sequence[int] = (1024, 1024, 1024),
        *,
        bias: bool = False,
        tie: bool = True,
        dropout: float = 0.1,
        input_dropout: float = 0.1,
        output_dropout: float = 0.1,
        word_dropout: float = 0.0,
        weight_dropout: float = 0.0,
        maps: GateMapping = "gate",
        vector_range: float | None = None,
        layer: Mapping[str, Any] | None = None,
        embedding: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.word_dropout, self.output_dropout = word_dropout, output_dropout
        tables = build_word_tables(
            vocabulary, width, embedding=embedding, output=output, tie=tie, bias=bias, any_width=True
        )
        self.embedding = tables.words
        if vector_range is not None:
            self.embedding.reset_parameters(vector_range / math.sqrt(3))
        self.define = tables.define
        sizes = [tables.width, *hidden, width]
        self.context = nn.ModuleList(
            LSTM(
                *pair,
                batch_first=True,
                bias_vectors=2,
                maps=maps,
                variational=True,
                # Each LSTM has one layer: what is dropped between two of them is dropped from the upper one's inputs.
                input_dropout=dropout if number else input_dropout,
                weight_dropout=weight_dropout,
                **(layer or {}),
            )
            for number, pair in enumerate(itertools.pairwise(sizes))
        )
        self.output = tables.output

    def forward(self, tokens: Tensor, state: State | None = None) -> Reading:
        """Reads ``[batch, length]``; the state is h and c of each LSTM after the text before, ``[batch, size]``."""
        hidden = self._words(tokens)
        after: list[Tensor] = []
        for number, lstm in enumerate(self.context):
            before = None if state is None else (state[2 * number][None], state[2 * number + 1][None])
            hidden, final = lstm(hidden, before)
            after += [vectors.detach()[0] for vectors in final]
        outputs = hidden
        if self.training and self.output_dropout:
            hidden = hidden * F.dropout(torch.ones_like(hidden[:, :1]), self.output_dropout)
        return Reading(hidden, outputs, tuple(after))

    def loss(self, hidden: Tensor, targets: Tensor) -> CrossEntropy:
        """Summed over ``targets``, in nats."""
        return cast(CrossEntropy, self.output(hidden, targets))

    def _words(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(tokens) if self.define is None else self.define(tokens)
        if self.training and self.word_dropout:
            vectors = vectors * F.dropout(vectors.new_ones(self.embedding.num_embeddings, 1), self.word_dropout)[tokens]
        return vectors


def build(config: LanguageModelExperiment, vocabulary: int) -> LSTMLanguageModel:
    """The network that a config describes."""
    model = config.model
    drops = ("dropout", "input_dropout", "output_dropout", "word_dropout", "weight_dropout")
    options = model.model_dump(include={"tie", "maps", "vector_range", *drops})
    hidden = [model.hidden] * (model.layers - 1)
    return LSTMLanguageModel(vocabulary, model.width, hidden, bias=model.output_bias, **options, **config.structures)
