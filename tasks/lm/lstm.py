"""Language models of stacked LSTMs: Mehta et al. (2020) on WikiText-103, AWD-LSTM (Merity et al. 2018)."""

import itertools
import math
from collections.abc import Sequence
from typing import ClassVar, cast

from torch import Tensor, nn

from phmrun.kernels.dropout import dropout_mask
from phmrun.layers import LSTM
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.network import Structures
from phmrun.tasks.lm.config import LanguageModelOptions
from phmrun.tasks.lm.language_model import Reading, State, build_word_tables


class LSTMLanguageModel(nn.Module):
    """Word vectors, stacked LSTMs, and a softmax tied to the word vectors.

    The LSTMs have width ``hidden``, the last one ``width``. AWD-LSTM adds output biases and all dropouts. Vectors have
    the same dropout mask at all time steps.

    Args:
        options: Section of the configuration.
        sizes: Entries of the vocabulary, in order of falling frequency.
        structures: Options of ``layer``, the LSTMs' maps; of ``embedding``, the word vectors (also factorized ones); of
            ``output``, the output's own maps.

    Raises:
        PhmrunError: Sizes and structures do not match.
    """

    options: ClassVar[type[LanguageModelOptions]] = LanguageModelOptions

    def __init__(self, options: LanguageModelOptions, sizes: Sequence[int], structures: Structures) -> None:
        super().__init__()
        self.word_dropout, self.output_dropout = options.word_dropout, options.output_dropout
        self.embedding, self.define, output, width = build_word_tables(options, sizes[0], structures, any_width=True)
        if options.vector_range is not None:
            self.embedding.reset_parameters(options.vector_range / math.sqrt(3))
        widths = [width, *[options.hidden] * (options.layers - 1), options.width]
        self.context = nn.ModuleList(
            LSTM(
                *pair,
                batch_first=True,
                bias_vectors=2,
                maps=options.maps,
                variational=True,
                # Each LSTM has one layer, so dropout between two of them is input dropout of the upper one.
                input_dropout=options.dropout if number else options.input_dropout,
                weight_dropout=options.weight_dropout,
                **structures.get("layer", {}),
            )
            for number, pair in enumerate(itertools.pairwise(widths))
        )
        self.output = output

    def forward(self, tokens: Tensor, state: State | None = None) -> Reading:
        """Read ``tokens [batch, length]`` after ``state``; ``None``: zeros.

        The state is h and c of each LSTM, ``[batch, size]``. In training, the outputs are dropped with one mask per
        text.
        """
        hidden = self._words(tokens)
        after: list[Tensor] = []
        for number, lstm in enumerate(self.context):
            before = None if state is None else (state[2 * number][None], state[2 * number + 1][None])
            hidden, final = lstm(hidden, before)
            after += [vectors.detach()[0] for vectors in final]
        outputs = hidden
        if self.training and self.output_dropout:
            hidden = hidden * dropout_mask(hidden[:, :1], self.output_dropout)
        return Reading(hidden, outputs, tuple(after))

    def loss(self, hidden: Tensor, targets: Tensor) -> CrossEntropy:
        """Return the softmax's loss summed over ``targets``, in nats."""
        return cast(CrossEntropy, self.output(hidden, targets))

    def _words(self, tokens: Tensor) -> Tensor:
        """Return the first LSTM's inputs, ``[…, width]``.

        In training, each word of the vocabulary is dropped as a whole with probability ``word_dropout``; others are
        scaled up by 1 / (1 - ``word_dropout``).
        """
        vectors: Tensor = self.embedding(tokens) if self.define is None else self.define(tokens)
        if self.training and self.word_dropout:
            kept = dropout_mask(vectors.new_empty(self.embedding.num_embeddings, 1), self.word_dropout)
            vectors = vectors * kept[tokens]
        return vectors
