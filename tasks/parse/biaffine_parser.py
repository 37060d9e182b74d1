"""Deep biaffine dependency parser (Dozat et al. 2017), with classifiers of Matsuno et al. (2018)."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.dropout import dropout
from phmrun.layers import LSTM, Biaffine, Embedding, Linear, Structure
from phmrun.layers.lstm import outputs, outputs_and_cells
from phmrun.layers.network import Structures
from phmrun.layers.recurrence import skips_padding
from phmrun.layers.structures.dense import Dense
from phmrun.registry import STRUCTURES
from phmrun.tasks.parse.config import ParserOptions
from phmrun.text.vocabulary import EOS, UNK

Group = tuple[int, int, int]
"""Index of the first spelling, index after the last, and maximum number of characters."""


def spelling_groups(counts: Sequence[int]) -> tuple[Group, ...]:
    """Return groups of spellings of similar length: start, end, longest.

    They keep the padding small: a group ends where the count falls to half, a quarter … of the longest. In a group, no
    spelling is twice as long as another.

    Args:
        counts: Characters of each spelling, in falling order.
    """
    ends = [sum(count > counts[0] >> number for count in counts) for number in range(1, counts[0].bit_length() + 1)]
    return tuple((start, end, counts[start]) for start, end in pairwise([0, *ends]) if start < end)


class ParserScores(NamedTuple):
    """Scores of arcs, and inputs of the label classifier.

    Position 0 is the root.
    """

    arcs: Tensor  # `[batch, dependents, heads]`
    dependents: Tensor  # label classifier's input for each word as a dependent, `[batch, length, label_width]`
    heads: Tensor  # the same for each word as a head


class BiaffineParser(nn.Module):
    """Words, tags and characters through a bidirectional LSTM, four MLPs and two biaffine classifiers.

    The vector of a word is the sum of its own (rare words share that of the unknown word) and one from an LSTM over its
    characters. ``fixed_width`` adds a map of a fixed vector, which rare words have, too: uniform with deviation
    1/√fixed_width, 0 for words that training has not seen. The tag's vector is concatenated; of two tags, it is the sum
    of theirs.

    Dropout of vectors has the same mask at all positions of a sentence. Recurrent dropout of ``parser-v2`` cells drops
    hidden units, as released; that of other cells drops entries of recurrent matrices, which the fused kernel supports.
    If a word loses its own vector or its tag's, the other one is scaled up.

    ``character_pooling``, for the characters' LSTM with outputs h and cell vectors c:

    - "last": M h_T
    - "attention": M [Σ_t a_t h_t; h_T] + b with a = softmax(u·h_1 … u·h_T)
    - "attention-cell": the same with c_T instead of h_T, as in Dozat and Manning's released parser

    ``start=parser-v2`` initializes as released: biaffine weights, the characters' map and attention, all biases and,
    unless ``tag_start=drawn``, tags are 0, and words with ``word_start=zero``; characters are normal with variance 1;
    the MLPs of dependents and heads start equal, with orthonormal columns. Structures with several factors, for which 0
    would stay 0, and those with ``variant=released`` have their own start, the same for all labels.

    If the classifiers' structures are square, the arc classifier has two linear terms and the label classifier no
    constants, as in equations 6, 7, 10 and 11 of Matsuno et al. The dependent's term adds the same to all heads of a
    word, so the choice of a head does not depend on it.

    Args:
        options: Section of the configuration.
        sizes: Rows of the tables of words, tags and characters, number of labels, and that of rare words, which only a
            vocabulary that tells them apart has.
        structures: Options of ``layer``, the maps of LSTMs and MLPs; of ``embedding``, the vectors of words, tags and
            characters; of ``output``, the bilinear forms.

    Raises:
        PhmrunError: Sizes and structures do not match.
    """

    options: ClassVar[type[ParserOptions]] = ParserOptions
    sections: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("tags", "letters"), "embedding"),
        **dict.fromkeys(("arc_classifier", "label_classifier"), "output"),
    }
    tag_columns = 1
    """Tags of each word that the network was trained with."""
    fixed: Tensor | None
    """Fixed vectors of words and rare words, ``[words + rare, fixed_width]``."""

    def __init__(self, options: ParserOptions, sizes: Sequence[int], structures: Structures) -> None:
        super().__init__()
        words, tags, characters, labels, *rare = sizes
        layer, embedding, classifier = (structures.get(place, {}) for place in ("layer", "embedding", "output"))
        self.dropout, self.embedding_dropout = options.dropout, options.embedding_dropout
        self.word_dropout, self.vector_std, self.start = options.word_dropout, options.vector_std, options.start
        self.character_pooling = options.character_pooling
        self.tag_start, self.word_start = options.tag_start, options.word_start
        hidden, dropout, dropped = options.hidden, options.dropout, options.recurrent_dropout
        recurrence: dict[str, Any] = {"batch_first": True, "variational": True, "input_dropout": dropout, **layer}
        if options.cell == "parser-v2":
            recurrence |= {"cell": options.cell, "bias_vectors": 1, "hidden_dropout": dropped}
            recurrence["direction_masks"] = options.direction_masks
        else:
            recurrence |= {"coupled": options.cell == "coupled", "bias_vectors": 2, "weight_dropout": dropped}
        self.embedding = Embedding(words, options.word_width, **embedding)
        self.tags = Embedding(tags, options.tag_width, **embedding)
        self.letters = Embedding(characters, options.character_width, **embedding)
        self.letter_lstm = LSTM(options.character_width, options.character_hidden, **recurrence)
        attends = options.character_pooling != "last"
        # A single row is no matrix that a structure could replace.
        self.letter_attention = Linear(options.character_hidden, 1, bias=False) if attends else None
        spelling = options.character_hidden * (1 + attends)
        self.letter_map = Linear(spelling, options.word_width, bias=attends, **layer)
        fixed = options.fixed_width
        self.register_buffer("fixed", torch.zeros(words + sum(rare), fixed) if fixed else None)
        self.fixed_map = Linear(fixed, options.word_width, **layer) if fixed else None
        inputs = options.word_width + options.tag_width
        self.lstm = LSTM(inputs, hidden, options.layers, bidirectional=True, dropout=dropout, **recurrence)
        self.arc_mlp = nn.ModuleList(Linear(2 * hidden, options.arc_width, **layer) for _ in range(2))
        self.label_mlp = nn.ModuleList(Linear(2 * hidden, options.label_width, **layer) for _ in range(2))
        reduced = STRUCTURES.get(classifier.get("structure", "dense")).square
        self.arc_classifier = Biaffine(options.arc_width, bias_x=True, bias_y=reduced, constant=False, **classifier)
        self.label_classifier = Biaffine(options.label_width, labels, constant=not reduced, **classifier)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize vectors with standard deviation ``vector_std``, by default 1/√width.

        ``start="parser-v2"`` also initializes classifiers, MLPs and the characters' map as released.
        """
        for table in (self.embedding, self.tags, self.letters):
            table.reset_parameters(self.vector_std or table.embedding_dim**-0.5)
        if self.fixed is not None:
            reach = (3 / self.fixed.shape[1]) ** 0.5
            nn.init.uniform_(self.fixed[EOS:], -reach, reach)
        if self.start == "parser-v2":
            self._start_as_released()

    @torch.no_grad()
    def _start_as_released(self) -> None:
        """Initialize parameters as released, in place.

        To 0: biaffine weights unless ``variant=released``, the characters' map and attention, biases of MLPs and of the
        map of fixed vectors, tags with ``tag_start="zero"``, and words with ``word_start="zero"``. Characters are
        normal with variance 1. A dense map of fixed vectors is orthonormal; dense MLPs have orthonormal columns, the
        same for dependents and heads. Maps and tables with several factors keep their values.
        """
        at_zero: list[nn.Module] = [self.letter_map]
        for classifier in (self.arc_classifier, self.label_classifier):
            first = cast(Structure, classifier.maps[0])
            if first.as_released:
                first.start_as_released()
                for structure in classifier.maps:
                    structure.load_state_dict(first.state_dict())
            else:
                at_zero += classifier.maps
        at_zero += [self.tags] if self.tag_start == "zero" else []
        at_zero += [self.embedding] if self.word_start == "zero" else []
        at_zero += [self.letter_attention] if self.letter_attention is not None else []
        for module in at_zero:
            weights = [parameter for name, parameter in module.named_parameters() if not name.endswith("bias")]
            if len(weights) == 1:  # a product of several zero factors has no gradient
                nn.init.zeros_(weights[0])
        letters = list(self.letters.parameters())
        if len(letters) == 1:
            nn.init.normal_(letters[0])
        if self.letter_map.bias is not None:
            nn.init.zeros_(self.letter_map.bias)
        if self.fixed_map is not None:
            nn.init.zeros_(cast(Tensor, self.fixed_map.bias))
            if isinstance(self.fixed_map.structure, Dense):
                nn.init.orthogonal_(self.fixed_map.structure.matrix)
        both = cast(list[list[Linear]], [self.arc_mlp, self.label_mlp])
        sizes = [linears[0].out_features for linears in both]
        joined = cast(Tensor, both[0][0].bias).new_empty(sum(sizes), both[0][0].in_features)
        for linears, rows in zip(both, nn.init.orthogonal_(joined).split(sizes), strict=True):
            for linear in linears:
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
        """Return the scores of all arcs, and the inputs of the label classifier.

        Words, tags and characters go through the LSTM, then through four MLPs with leaky ReLU (slope 0.1) and dropout.

        Args:
            words: Ids ``[batch, length]``, the root first.
            tags: Ids ``[batch, length]``, or ``[batch, length, tags]`` if a word has several.
            characters: Ids ``[spellings, longest]``, one row per distinct spelling, longest first.
            character_counts: Characters of each spelling, ``[spellings]``, at least 1.
            spellings: Row of ``characters`` for each word, ``[batch, length]``.
            lengths: Words of each sentence, root included, ``[batch]``.
            groups: Groups by :func:`spelling_groups`; computed if not given, which synchronizes with a GPU.
        """
        spelt = self.read_characters(characters, character_counts, groups)
        inputs = self._inputs(words, tags, F.embedding(spellings, spelt))
        read = self._drop(self.encode(inputs, lengths))
        dependent, head, label_dependent, label_head = (
            self._drop(F.leaky_relu(mlp(read), 0.1)) for mlp in (*self.arc_mlp, *self.label_mlp)
        )
        return ParserScores(self.arc_classifier(dependent, head), label_dependent, label_head)

    def encode(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """Return the words in context, ``[batch, length, word_width + tag_width] -> [batch, length, 2 · hidden]``.

        ``lengths`` are the words of each sentence, ``[batch]``. Subclasses override this for another encoder.
        """
        return outputs(self.lstm, vectors, lengths)

    def label_scores(self, scores: ParserScores, heads: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return the scores of labels of arcs to the given heads.

        Args:
            scores: Output of :meth:`forward`.
            heads: Head of each word, ``[batch, length]``.
            positions: Positions in the flattened ``[batch, length]``; all if not given.

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
        """Return vectors of spellings: ``[spellings, longest] -> [spellings, word_width]``.

        Spellings are in falling order of length (``counts``); those of a group are read together. Groups are computed
        if not given; where the LSTM leaves out the padding there is one. In training, dropout applies before the last
        map.
        """
        vectors = self.letters(characters)
        last = []
        steps = self.character_pooling == "attention-cell" or (self.training and self.letter_lstm.hidden_dropout)
        if steps and skips_padding(counts):
            groups = [(0, *characters.shape)]
        for start, end, longest in groups or spelling_groups(counts.tolist()):
            last.append(self._read_spellings(vectors[start:end, :longest], counts[start:end]))
        return self.letter_map(dropout(torch.cat(last), self.dropout, self.training))

    def _read_spellings(self, vectors: Tensor, counts: Tensor) -> Tensor:
        """Return vectors of spellings before the map.

        ``vectors`` are ``[spellings, longest, character_width]``. The last hidden or cell vector follows the
        attention's mean, if there is attention (see the class).
        """
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
        """Return the inputs of the LSTM, ``[batch, length, word_width + tag_width]``.

        In training, words are replaced by the unknown word, and words or tags dropped. If one of the two vectors is
        dropped, the other is doubled; if both are, the input is 0. A word whose tags are all unknown is read like one
        whose tag vector is dropped.
        """
        tags = tags if tags.dim() == 3 else tags.unsqueeze(-1)
        has_tag = (tags != UNK).any(-1).to(spelt.dtype)
        kept = torch.stack([torch.ones_like(has_tag), has_tag])
        if self.training and self.word_dropout:
            words = words.masked_fill(torch.rand_like(has_tag) < self.word_dropout, UNK)
        if self.training and self.embedding_dropout:
            kept = kept * (torch.rand_like(kept) >= self.embedding_dropout)
        scale = kept * (len(kept) / kept.sum(dim=0).clamp(min=1))
        vectors = self._word_vectors(words) + spelt
        tag_vectors = self.tags(tags).sum(-2)
        return torch.cat([vectors * scale[0].unsqueeze(-1), tag_vectors * scale[1].unsqueeze(-1)], dim=-1)

    def _word_vectors(self, words: Tensor) -> Tensor:
        """Return the vectors of words without their characters, ``[batch, length] -> [batch, length, word_width]``.

        Ids beyond the table are rare words. With fixed vectors it is the sum of a word's own, or the unknown word's,
        and the map of its fixed one.
        """
        if self.fixed is None or self.fixed_map is None:
            return self.embedding(words)
        rows = words.masked_fill(words >= self.embedding.num_embeddings, UNK)
        return self.embedding(rows) + self.fixed_map(F.embedding(words, self.fixed))

    @property
    def words(self) -> int:
        """Number of ids of words: rows of their table and, with fixed vectors, rare words."""
        return self.embedding.num_embeddings if self.fixed is None else len(self.fixed)

    def penalty(self) -> Tensor:
        """Return ½·‖W Wᵀ − 1‖² of the map W of fixed vectors, which keeps it near orthonormal, or 0 without one.

        Source: Parser-v2, ``parser/vocabs/pretrained_vocab.py:65``.
        """
        if self.fixed_map is None:
            return torch.zeros(())
        weight = self.fixed_map.weight
        return (weight @ weight.T - torch.eye(len(weight), device=weight.device)).square().sum() / 2

    def _drop(self, vectors: Tensor) -> Tensor:
        """Apply dropout in training, with the same mask at all positions of a sentence."""
        return dropout(vectors, self.dropout, self.training, along=1)
