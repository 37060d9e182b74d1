"""The deep biaffine dependency parser (Dozat et al. 2017), with the reduced classifiers of Matsuno et al. 2018."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import LSTM, Biaffine, Embedding, Linear
from phmrun.layers.lstm import outputs
from phmrun.registry import STRUCTURES
from phmrun.text.vocabulary import UNK

CharacterPooling = Literal["last", "attention"]
"""How the outputs of the LSTM over a word's characters become one vector."""


class ParserScores(NamedTuple):
    """What the parser says of every pair of words; position 0 is the root."""

    arcs: Tensor  # `[batch, dependents, heads]`
    dependents: Tensor  # what the label classifier reads of each word as a dependent, `[batch, length, label_width]`
    heads: Tensor  # of each word as a head


class BiaffineParser(nn.Module):
    """Words, tags and characters through a bidirectional LSTM, four MLPs and two biaffine classifiers.

    The vector of a word is the sum of its own (rare words share that of the unknown word) and what an LSTM makes of
    its characters; a tag's stands beside it.

    Args:
        character_pooling: What of its outputs h_1 … h_T becomes the vector of a spelling: "last": M h_T; "attention",
            as in Dozat and Manning's released parser: M [Σ_t a_t h_t; h_T] + b with a = softmax(u·h_1 … u·h_T).
        hidden: Hidden size of each direction of the LSTM over words.
        arc_width: Size of the vectors that the arc classifier reads.
        label_width: Size of those that the label classifier reads.
        coupled: LSTM cells whose input gate is 1 - forget gate; otherwise plain ones.
        dropout: Share of numbers dropped in training from what LSTM layers, MLPs and classifiers read, the same at all
            positions of a sentence.
        recurrent_dropout: Share of the entries of the LSTMs' recurrent matrices dropped in training, the same at all
            positions, which the fused kernel can do; Parser-v2 drops numbers of the hidden vectors.
        embedding_dropout: Share of words that are read without their word vector in training, and of words that are
            read without their tag vector; what is left of the two is scaled up.
        word_dropout: Share of words whose own vector is that of the unknown word in training; their characters stay.
        vector_std: Standard deviation with which vectors of words, tags and characters begin; ``None``: 1/√width.
        classifier: Structure of the bilinear forms and its options. With one of square matrices only the arc classifier
            has two linear terms and the label classifier no constants, as in equations 6, 7, 10 and 11 of Matsuno et
            al. The dependent's term adds the same to all heads of a word, so no choice of a head depends on it.
        layer: Structure of the maps of LSTMs and MLPs and its options.
        embedding: The same for the vectors of words, tags and characters.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    def __init__(
        self,
        words: int,
        tags: int,
        characters: int,
        labels: int,
        *,
        word_width: int = 100,
        tag_width: int = 100,
        character_width: int = 100,
        character_hidden: int = 200,
        character_pooling: CharacterPooling = "last",
        hidden: int = 200,
        layers: int = 3,
        arc_width: int = 400,
        label_width: int = 100,
        coupled: bool = True,
        dropout: float = 0.33,
        recurrent_dropout: float = 0.0,
        embedding_dropout: float = 0.0,
        word_dropout: float = 0.0,
        vector_std: float | None = None,
        classifier: Mapping[str, Any] | None = None,
        layer: Mapping[str, Any] | None = None,
        embedding: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.dropout, self.embedding_dropout, self.word_dropout = dropout, embedding_dropout, word_dropout
        self.vector_std = vector_std
        layer, classifier, embedding = layer or {}, classifier or {}, embedding or {}
        cell: dict[str, Any] = {"batch_first": True, "coupled": coupled, "bias_vectors": 2, "variational": True}
        cell |= {"input_dropout": dropout, "weight_dropout": recurrent_dropout, **layer}
        self.embedding = Embedding(words, word_width, **embedding)
        self.tags = Embedding(tags, tag_width, **embedding)
        self.letters = Embedding(characters, character_width, **embedding)
        self.letter_lstm = LSTM(character_width, character_hidden, **cell)
        attends = character_pooling == "attention"
        # A single row, and so no matrix for a structure to replace.
        self.letter_attention = Linear(character_hidden, 1, bias=False) if attends else None
        self.letter_map = Linear(character_hidden * (1 + attends), word_width, bias=attends, **layer)
        self.lstm = LSTM(word_width + tag_width, hidden, layers, bidirectional=True, dropout=dropout, **cell)
        self.arc_mlp = nn.ModuleList(Linear(2 * hidden, arc_width, **layer) for _ in range(2))
        self.label_mlp = nn.ModuleList(Linear(2 * hidden, label_width, **layer) for _ in range(2))
        reduced = STRUCTURES.get(classifier.get("structure", "dense")).square
        self.arc_classifier = Biaffine(arc_width, bias_x=True, bias_y=reduced, constant=False, **classifier)
        self.label_classifier = Biaffine(label_width, labels, constant=not reduced, **classifier)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Vectors uniform with ``vector_std``, or the variance 1 / width; all else as its module has it."""
        for table in (self.embedding, self.tags, self.letters):
            table.reset_parameters(self.vector_std or table.embedding_dim**-0.5)

    def forward(
        self,
        words: Tensor,
        tags: Tensor,
        characters: Tensor,
        character_counts: Tensor,
        spellings: Tensor,
        lengths: Tensor,
    ) -> ParserScores:
        """Scores of all arcs, and what labels are scored from.

        Args:
            words: ``[batch, length]``, the root first.
            tags: ``[batch, length]``.
            characters: ``[spellings, longest]``, each spelling once however many words have it, the longest first.
            character_counts: ``[spellings]``, at least 1.
            spellings: Which row of ``characters`` each word has, ``[batch, length]``.
            lengths: ``[batch]``, words of each sentence and the root.
        """
        inputs = self._inputs(words, tags, F.embedding(spellings, self.read_characters(characters, character_counts)))
        read = self._drop(outputs(self.lstm, inputs, lengths))
        dependent, head, label_dependent, label_head = (
            self._drop(F.leaky_relu(mlp(read), 0.1)) for mlp in (*self.arc_mlp, *self.label_mlp)
        )
        return ParserScores(self.arc_classifier(dependent, head), label_dependent, label_head)

    def label_scores(self, scores: ParserScores, heads: Tensor, positions: Tensor | None = None) -> Tensor:
        """Scores of the labels of the arcs to given heads.

        Args:
            scores: Of :meth:`forward`.
            heads: ``[batch, length]``.
            positions: Which words are asked for, as positions in the flattened ``[batch, length]``; unless given, all.

        Returns:
            ``[batch, length, labels]``, or ``[positions, labels]``.
        """
        batch, length, width = scores.heads.shape
        starts = torch.arange(0, batch * length, length, device=heads.device).unsqueeze(1)
        dependents, rows = scores.dependents.reshape(-1, width), (heads + starts).flatten()
        if positions is not None:
            dependents, rows = dependents.index_select(0, positions), rows.index_select(0, positions)
        labels = self.label_classifier.pairs(dependents, scores.heads.reshape(-1, width).index_select(0, rows))
        return labels if positions is not None else labels.unflatten(0, (batch, length))

    def read_characters(self, characters: Tensor, counts: Tensor) -> Tensor:
        """Vectors of spellings from their characters: ``[spellings, longest] -> [spellings, word_width]``.

        The longest come first; those of which none is twice as long as another are read together: little padding.
        """
        vectors = self.letters(characters)
        halves = [len(characters[0]) >> number for number in range(1, len(characters[0]).bit_length() + 1)]
        ends = [int((counts > half).sum()) for half in halves]
        last = []
        for start, end in pairwise([0, *ends]):
            if start < end:
                part = counts[start:end]
                said = outputs(self.letter_lstm, vectors[start:end, : int(part.max())], part)
                last.append(self._pooled(said, part))
        return self.letter_map(F.dropout(torch.cat(last), self.dropout, self.training))

    def _pooled(self, said: Tensor, counts: Tensor) -> Tensor:
        """One vector of each spelling, of the LSTM's outputs ``[spellings, longest, character_hidden]``."""
        final = said[torch.arange(len(said)), counts - 1]
        if self.letter_attention is None:
            return final
        beyond = torch.arange(said.shape[1], device=said.device) >= counts.unsqueeze(1)
        scores = self.letter_attention(said).squeeze(-1).masked_fill(beyond, -torch.inf)
        attended = torch.bmm(scores.softmax(-1).unsqueeze(1), said).squeeze(1)
        return torch.cat([attended, final], -1)

    def _inputs(self, words: Tensor, tags: Tensor, spelt: Tensor) -> Tensor:
        """What the LSTM reads, ``[batch, length, word_width + tag_width]``.

        A word whose tag is unknown is read as one whose tag vector was dropped in training.
        """
        known = (tags != UNK).to(spelt.dtype)
        kept = torch.stack([torch.ones_like(known), known])
        if self.training and self.word_dropout:
            words = words.masked_fill(torch.rand_like(known) < self.word_dropout, UNK)
        if self.training and self.embedding_dropout:
            kept = kept * (torch.rand_like(kept) >= self.embedding_dropout)
        scale = kept * (len(kept) / kept.sum(dim=0).clamp(min=1))
        vectors = self.embedding(words) + spelt
        return torch.cat([vectors * scale[0].unsqueeze(-1), self.tags(tags) * scale[1].unsqueeze(-1)], dim=-1)

    def _drop(self, vectors: Tensor) -> Tensor:
        """Dropout of the same numbers at all positions of a sentence."""
        if not (self.training and self.dropout):
            return vectors
        return vectors * F.dropout(torch.ones_like(vectors[:, :1]), self.dropout)
