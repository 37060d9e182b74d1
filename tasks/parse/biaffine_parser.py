"""The deep biaffine dependency parser (Dozat et al. 2017), with the reduced classifiers of Matsuno et al. 2018."""

from collections.abc import Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import LSTM, Biaffine, Embedding, Linear
from phmrun.layers.lstm import outputs, outputs_and_cells
from phmrun.layers.network import Structures
from phmrun.layers.structures.dense import Dense
from phmrun.registry import STRUCTURES
from phmrun.tasks.parse.config import ParserOptions
from phmrun.text.vocabulary import UNK

Group = tuple[int, int, int]
"""First spelling, the one after the last, and characters of the longest."""


def spelling_groups(counts: Sequence[int]) -> tuple[Group, ...]:
    """Return groups of spellings, none twice as long as another of its group, so that there is little padding.

    Args:
        counts: Characters of each spelling, the longest first.
    """
    ends = [sum(count > counts[0] >> number for count in counts) for number in range(1, counts[0].bit_length() + 1)]
    return tuple((start, end, counts[start]) for start, end in pairwise([0, *ends]) if start < end)


class ParserScores(NamedTuple):
    """What the parser says of every pair of words; position 0 is the root."""

    arcs: Tensor  # `[batch, dependents, heads]`
    dependents: Tensor  # what the label classifier reads of each word as a dependent, `[batch, length, label_width]`
    heads: Tensor  # of each word as a head


class BiaffineParser(nn.Module):
    """Words, tags and characters through a bidirectional LSTM, four MLPs and two biaffine classifiers.

    The vector of a word is the sum of its own (rare words share that of the unknown word) and what an LSTM makes of
    its characters; a tag's stands beside it.

    Dropout of vectors is the same at all positions of a sentence. Cells of ``parser-v2`` lose numbers of the hidden
    vectors, as released; other cells entries of the recurrent matrices, which the fused kernel can do. If a word loses
    its vector or its tag's, the other one is scaled up. ``character_pooling`` of the characters' LSTM with outputs h
    and cell vectors c: M h_T ("last"); M [Σ_t a_t h_t; h_T] + b with a = softmax(u·h_1 … u·h_T) ("attention"); the same
    with c_T in the place of h_T, as in Dozat and Manning's released parser ("attention-cell").

    ``start=parser-v2``, as released: biaffine weights, the characters' map and attention, tags and all biases at 0,
    characters normal with variance 1, the maps of dependents and heads alike, with orthonormal columns. Structures with
    several factors, where 0 would stay 0, begin as usual.

    With classifiers of square matrices only, the arc classifier has two linear terms and the label classifier no
    constants, as in equations 6, 7, 10 and 11 of Matsuno et al. The dependent's term adds the same to all heads of a
    word, so no choice of a head depends on it.

    Args:
        options: Its section of the configuration; every option is described there.
        sizes: Rows of the tables of words, tags and characters, and number of labels.
        structures: Structure and options of ``layer``, the maps of LSTMs and MLPs; of ``embedding``, the vectors of
            words, tags and characters; of ``output``, the bilinear forms.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    options: ClassVar[type[ParserOptions]] = ParserOptions

    def __init__(
        self, options: ParserOptions, sizes: Sequence[int], structures: Structures = MappingProxyType({})
    ) -> None:
        super().__init__()
        words, tags, characters, labels = sizes
        layer, embedding, classifier = (structures.get(place, {}) for place in ("layer", "embedding", "output"))
        self.dropout, self.embedding_dropout = options.dropout, options.embedding_dropout
        self.word_dropout, self.vector_std, self.start = options.word_dropout, options.vector_std, options.start
        self.character_pooling = options.character_pooling
        hidden, dropout, dropped = options.hidden, options.dropout, options.recurrent_dropout
        recurrence: dict[str, Any] = {"batch_first": True, "variational": True, "input_dropout": dropout, **layer}
        if options.cell == "parser-v2":
            recurrence |= {"cell": options.cell, "bias_vectors": 1, "hidden_dropout": dropped}
        else:
            recurrence |= {"coupled": options.cell == "coupled", "bias_vectors": 2, "weight_dropout": dropped}
        self.embedding = Embedding(words, options.word_width, **embedding)
        self.tags = Embedding(tags, options.tag_width, **embedding)
        self.letters = Embedding(characters, options.character_width, **embedding)
        self.letter_lstm = LSTM(options.character_width, options.character_hidden, **recurrence)
        attends = options.character_pooling != "last"
        # A single row, and so no matrix for a structure to replace.
        self.letter_attention = Linear(options.character_hidden, 1, bias=False) if attends else None
        spelling = options.character_hidden * (1 + attends)
        self.letter_map = Linear(spelling, options.word_width, bias=attends, **layer)
        inputs = options.word_width + options.tag_width
        self.lstm = LSTM(inputs, hidden, options.layers, bidirectional=True, dropout=dropout, **recurrence)
        self.arc_mlp = nn.ModuleList(Linear(2 * hidden, options.arc_width, **layer) for _ in range(2))
        self.label_mlp = nn.ModuleList(Linear(2 * hidden, options.label_width, **layer) for _ in range(2))
        reduced = STRUCTURES.get(classifier.get("structure", "dense")).square
        self.arc_classifier = Biaffine(options.arc_width, bias_x=True, bias_y=reduced, constant=False, **classifier)
        self.label_classifier = Biaffine(options.label_width, labels, constant=not reduced, **classifier)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Vectors uniform with ``vector_std``, or the variance 1 / width; all else as its module has it."""
        for table in (self.embedding, self.tags, self.letters):
            table.reset_parameters(self.vector_std or table.embedding_dim**-0.5)
        if self.start == "parser-v2":
            self._start_as_released()

    @torch.no_grad()
    def _start_as_released(self) -> None:
        at_zero: list[nn.Module] = [self.tags, self.letter_map, *self.arc_classifier.maps, *self.label_classifier.maps]
        at_zero += [self.letter_attention] if self.letter_attention is not None else []
        for module in at_zero:
            weights = [parameter for name, parameter in module.named_parameters() if not name.endswith("bias")]
            if len(weights) == 1:  # the product of several factors at 0 has no gradient
                nn.init.zeros_(weights[0])
        letters = list(self.letters.parameters())
        if len(letters) == 1:
            nn.init.normal_(letters[0])
        if self.letter_map.bias is not None:
            nn.init.zeros_(self.letter_map.bias)
        both = [
            (cast(Linear, arc), cast(Linear, label)) for arc, label in zip(self.arc_mlp, self.label_mlp, strict=True)
        ]
        sizes = [linear.out_features for linear in both[0]]
        joined = cast(Tensor, both[0][0].bias).new_empty(sum(sizes), both[0][0].in_features)
        columns = nn.init.orthogonal_(joined).split(sizes)
        for pair in both:
            for linear, rows in zip(pair, columns, strict=True):
                nn.init.zeros_(cast(Tensor, linear.bias))
                if isinstance(linear.structure, Dense):
                    linear.structure.matrix.copy_(rows)

    def forward(
        self,
        words: Tensor,
        tags: Tensor,
        characters: Tensor,
        character_counts: Tensor,
        spellings: Tensor,
        lengths: Tensor,
        *,
        groups: Sequence[Group] | None = None,
    ) -> ParserScores:
        """Scores of all arcs, and what labels are scored from.

        Args:
            words: ``[batch, length]``, the root first.
            tags: ``[batch, length]``.
            characters: ``[spellings, longest]``, each spelling once however many words have it, the longest first.
            character_counts: ``[spellings]``, at least 1.
            spellings: Which row of ``characters`` each word has, ``[batch, length]``.
            lengths: ``[batch]``, words of each sentence and the root.
            groups: See :func:`spelling_groups`; computed here unless given, for which a GPU is waited for.
        """
        spelt = self.read_characters(characters, character_counts, groups)
        inputs = self._inputs(words, tags, F.embedding(spellings, spelt))
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

    def read_characters(self, characters: Tensor, counts: Tensor, groups: Sequence[Group] | None = None) -> Tensor:
        """Vectors of spellings from their characters: ``[spellings, longest] -> [spellings, word_width]``.

        The longest come first; the spellings of a group are read together.
        """
        vectors = self.letters(characters)
        last = []
        for start, end, longest in groups or spelling_groups(counts.tolist()):
            last.append(self._read_spellings(vectors[start:end, :longest], counts[start:end]))
        return self.letter_map(F.dropout(torch.cat(last), self.dropout, self.training))

    def _read_spellings(self, vectors: Tensor, counts: Tensor) -> Tensor:
        """One vector of each spelling ``[spellings, longest, character_width]``, before the map."""
        if self.character_pooling == "attention-cell":
            hidden, final = outputs_and_cells(self.letter_lstm, vectors, counts)
        else:
            hidden = outputs(self.letter_lstm, vectors, counts)
            final = hidden[torch.arange(len(hidden)), counts - 1]
        if self.letter_attention is None:
            return final
        read = self._drop(hidden) if self.character_pooling == "attention-cell" else hidden
        beyond = torch.arange(hidden.shape[1], device=hidden.device) >= counts.unsqueeze(1)
        scores = self.letter_attention(read).squeeze(-1).masked_fill(beyond, -torch.inf)
        attended = torch.bmm(scores.softmax(-1).unsqueeze(1), hidden).squeeze(1)
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
