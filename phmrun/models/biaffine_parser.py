"""The deep biaffine dependency parser (Dozat et al. 2017), with the reduced classifiers of Matsuno et al. 2018."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from phmrun.layers import LSTM, Biaffine, Embedding, Linear


class ParserScores(NamedTuple):
    """What the parser says of every pair of words; position 0 is the root.

    Attributes:
        arcs: ``[batch, dependents, heads]``.
        dependents: What the label classifier reads of each word as a dependent, ``[batch, length, label_width]``.
        heads: Of each word as a head.
    """

    arcs: Tensor
    dependents: Tensor
    heads: Tensor


class BiaffineParser(nn.Module):
    """Words, tags and letters through a three-layer bidirectional LSTM, four MLPs and two biaffine classifiers.

    Args:
        words: Words with a vector of their own; rarer ones share that of the unknown word.
        tags: Part-of-speech tags.
        letters: Letters.
        labels: Labels of arcs.
        word_width: Size of a word vector; that of letters is mapped to it and added.
        tag_width: Size of a tag vector.
        letter_width: Size of a letter vector.
        letter_hidden: Hidden size of the LSTM over the letters of a word.
        hidden: Hidden size of each direction of the LSTM over words.
        layers: Layers of that LSTM.
        arc_width: Size of the vectors that the arc classifier reads.
        label_width: Size of those that the label classifier reads.
        coupled: LSTM cells whose input gate is 1 - forget gate.
        dropout: Share of vectors dropped in training, the same at all positions of a sentence.
        classifier: Structure of the bilinear forms and its options. With "symmetric" and "circulant" the arc classifier
            has two linear terms and the label classifier no constants, as in Matsuno et al.
        layer: Structure of the maps of LSTMs and MLPs and its options.
        embedding: The same for the word vectors.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    def __init__(
        self,
        words: int,
        tags: int,
        letters: int,
        labels: int,
        *,
        word_width: int = 100,
        tag_width: int = 100,
        letter_width: int = 100,
        letter_hidden: int = 200,
        hidden: int = 200,
        layers: int = 3,
        arc_width: int = 400,
        label_width: int = 100,
        coupled: bool = True,
        dropout: float = 0.33,
        classifier: Mapping[str, Any] | None = None,
        layer: Mapping[str, Any] | None = None,
        embedding: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        layer, classifier = layer or {}, classifier or {}
        cell: dict[str, Any] = {"batch_first": True, "coupled": coupled, "bias_vectors": 2, **layer}
        self.embedding = Embedding(words, word_width, **(embedding or {}))
        self.tags = Embedding(tags, tag_width)
        self.letters = Embedding(letters, letter_width)
        self.letter_lstm = LSTM(letter_width, letter_hidden, **cell)
        self.letter_map = Linear(letter_hidden, word_width, bias=False)
        sizes: dict[str, Any] = {"bidirectional": True, "dropout": dropout, "variational": True, **cell}
        self.lstm = LSTM(word_width + tag_width, hidden, layers, **sizes)
        self.arc_mlp = nn.ModuleList(Linear(2 * hidden, arc_width, **layer) for _ in range(2))
        self.label_mlp = nn.ModuleList(Linear(2 * hidden, label_width, **layer) for _ in range(2))
        reduced = classifier.get("structure", "dense") in ("symmetric", "circulant")
        self.arc_classifier = Biaffine(arc_width, bias_x=True, bias_y=reduced, constant=False, **classifier)
        self.label_classifier = Biaffine(label_width, labels, constant=not reduced, **classifier)

    def forward(
        self, words: Tensor, tags: Tensor, letters: Tensor, letter_counts: Tensor, lengths: Tensor
    ) -> ParserScores:
        """Scores of all arcs, and what labels are scored from.

        Args:
            words: ``[batch, length]``, the root first.
            tags: ``[batch, length]``.
            letters: ``[batch, length, longest]``.
            letter_counts: ``[batch, length]``, at least 1.
            lengths: ``[batch]``, words of each sentence and the root.
        """
        vectors = self.embedding(words) + self.read_letters(letters, letter_counts)
        inputs = self._drop(torch.cat([vectors, self.tags(tags)], dim=-1))
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        outputs = self._drop(outputs)
        dependent, head, label_dependent, label_head = (
            self._drop(F.leaky_relu(mlp(outputs), 0.1)) for mlp in (*self.arc_mlp, *self.label_mlp)
        )
        return ParserScores(self.arc_classifier(dependent, head), label_dependent, label_head)

    def label_scores(self, scores: ParserScores, heads: Tensor) -> Tensor:
        """Scores of the labels of the arcs to ``heads [batch, length]``, ``[batch, length, labels]``."""
        index = heads[..., None].expand(-1, -1, scores.heads.shape[-1])
        return self.label_classifier.pairs(scores.dependents, scores.heads.gather(1, index))

    def read_letters(self, letters: Tensor, counts: Tensor) -> Tensor:
        """Word vectors from letters, ``[batch, length, longest] -> [batch, length, word_width]``."""
        flat = self.letters(letters.flatten(0, 1))
        packed = pack_padded_sequence(flat, counts.flatten().cpu(), batch_first=True, enforce_sorted=False)
        last = self.letter_lstm(packed)[1][0][-1]
        return self.letter_map(last).unflatten(0, tuple(counts.shape))

    def _drop(self, vectors: Tensor) -> Tensor:
        """Dropout of the same numbers at all positions of a sentence."""
        if not (self.training and self.dropout):
            return vectors
        return vectors * F.dropout(torch.ones_like(vectors[:, :1]), self.dropout)
