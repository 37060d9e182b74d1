"""A decoder whose every logit is a function of the sentence and its own prefix, and searches written the slow way."""

import itertools
import math
import random

import torch
from torch import Tensor

PAD, UNK, BOS, EOS = 0, 1, 2, 3

Prefix = tuple[int, ...]


class TableState:
    """State of each live hypothesis: its source and the tokens read so far."""

    def __init__(self, sources: list[Prefix], prefixes: list[list[Prefix]]) -> None:
        self.sources = sources
        self.prefixes = prefixes


class TableDecoder:
    """Draws the logits behind a prefix from a generator seeded by the source and the prefix; counts its calls."""

    def __init__(self, vocabulary: int, seed: int, levels: int = 0, ending: float = 0.0) -> None:
        self.vocabulary, self.seed, self.levels, self.ending = vocabulary, seed, levels, ending
        self.steps = self.reorders = self.selects = self.rows = 0
        self._table: dict[tuple[Prefix, Prefix], list[float]] = {}

    def logits(self, source: Prefix, prefix: Prefix) -> list[float]:
        if (source, prefix) not in self._table:
            draw = random.Random(f"{self.seed}/{source}/{prefix}")
            row = [draw.gauss(0.0, 2.0) for _ in range(self.vocabulary)]
            if self.levels:  # few different values: many ties
                row = [float(draw.randrange(self.levels)) for _ in range(self.vocabulary)]
            row[EOS] += self.ending
            self._table[source, prefix] = row
        return self._table[source, prefix]

    def log_probs(self, source: Prefix, prefix: Prefix) -> list[float]:
        row = self.logits(source, prefix)
        total = math.log(math.fsum(math.exp(value) for value in row))
        return [value - total for value in row]

    def start(self, source: Tensor) -> TableState:
        sources = [tuple(token for token in row if token != PAD) for row in source.tolist()]
        return TableState(sources, [[()] for _ in sources])

    def step(self, tokens: Tensor, state: TableState) -> Tensor:
        assert tokens.shape == (len(state.prefixes), len(state.prefixes[0]))
        assert tokens.is_contiguous()
        self.steps += 1
        self.rows += tokens.numel()
        state.prefixes = [
            [(*prefix, token) for prefix, token in zip(prefixes, row, strict=True)]
            for prefixes, row in zip(state.prefixes, tokens.tolist(), strict=True)
        ]
        logits = [
            [self.logits(source, prefix) for prefix in prefixes]
            for source, prefixes in zip(state.sources, state.prefixes, strict=True)
        ]
        return torch.tensor(logits, dtype=torch.float64)

    def reorder(self, state: TableState, beams: Tensor) -> TableState:
        self.reorders += 1
        assert len(beams) == len(state.prefixes)
        prefixes = [[row[beam] for beam in chosen] for row, chosen in zip(state.prefixes, beams.tolist(), strict=True)]
        assert prefixes != state.prefixes, "a reorder that changes nothing should be left out"
        return TableState(state.sources, prefixes)

    def select(self, state: TableState, sentences: Tensor) -> TableState:
        self.selects += 1
        kept = sentences.tolist()
        assert kept == sorted(set(kept))
        assert 0 < len(kept) < len(state.sources)
        return TableState([state.sources[i] for i in kept], [state.prefixes[i] for i in kept])


def penalty(length: int, alpha: float) -> float:
    return (5 + length) ** alpha / 6**alpha


def log_prob_of(decoder: TableDecoder, source: Prefix, tokens: list[int]) -> float:
    """The log-probability of an output and its end, by the chain rule."""
    prefix: Prefix = (BOS,)
    total = 0.0
    for token in (*tokens, EOS):
        total += decoder.log_probs(source, prefix)[token]
        prefix = (*prefix, token)
    return total


def exhaustive(decoder: TableDecoder, source: Prefix, max_length: int, alpha: float) -> list[tuple[float, list[int]]]:
    """Every output of at most ``max_length`` tokens, its end counted, best first."""
    words = [token for token in range(decoder.vocabulary) if token not in (PAD, BOS, EOS)]
    outputs = [
        list(words_then) for length in range(max_length) for words_then in itertools.product(words, repeat=length)
    ]
    scored = [(log_prob_of(decoder, source, out) / penalty(len(out) + 1, alpha), out) for out in outputs]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1]))


def slow_beam_search(
    decoder: TableDecoder, source: Prefix, beam: int, alpha: float, max_length: int
) -> list[tuple[float, list[int]]]:
    """Reference search of one sentence with dictionaries and lists, without an early stop by a bound."""
    live: dict[Prefix, float] = {(BOS,): 0.0}
    finished: dict[Prefix, float] = {}
    for length in range(1, max_length + 1):
        candidates: list[tuple[float, int, int, Prefix]] = []
        for place, (prefix, total) in enumerate(live.items()):
            for token, log_prob in enumerate(decoder.log_probs(source, prefix)):
                if token in (PAD, BOS) or (length == max_length and token != EOS):
                    continue
                candidates.append((-(total + log_prob), place, token, prefix))
        candidates = sorted(candidates)[: 2 * beam]
        live = {}
        for rank, (negative, _, token, prefix) in enumerate(candidates):
            if token == EOS and rank < beam:
                finished[prefix[1:]] = -negative / penalty(length, alpha)
            elif token != EOS and len(live) < beam:
                live[*prefix, token] = -negative
        if len(finished) >= beam:
            break
    return sorted(((score, list(tokens)) for tokens, score in finished.items()), key=lambda pair: -pair[0])


def sources_of(count: int, seed: int = 0) -> list[Prefix]:
    """Sentences of different lengths, all different."""
    draw = random.Random(seed)
    return [(4 + number, *(draw.randrange(4, 90) for _ in range(draw.randrange(6)))) for number in range(count)]


def padded(sources: list[Prefix]) -> Tensor:
    width = max(len(source) for source in sources)
    return torch.tensor([[*source, *[PAD] * (width - len(source))] for source in sources])
