"""Beam search over a ``StepDecoder``.

In every pass each live hypothesis is continued by every token, and the ``2 * beam`` most probable continuations of a
sentence are its candidates: enough that ``beam`` of them do not end. A candidate that ends among the best ``beam`` is a
finished hypothesis; the best ``beam`` that do not end live on. A sentence is finished when ``beam`` hypotheses are, or
at its maximal length, where every live hypothesis is ended. Finished hypotheses are ranked by
``log_prob / length_penalty``.

A sentence also stops as soon as nothing can change its result: a log-probability only falls and the penalty is largest
at the maximal length, so a live hypothesis never gets above ``log_prob / length_penalty(max_length)``.

All of it happens per sentence, so the outcome depends neither on the batch nor on when finished sentences leave it.
Shapes: ``batch`` sentences (``rows`` of them still there), ``beam`` hypotheses, ``vocabulary`` target tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from phmrun.decoding.candidates import log_probabilities, only_token, top_candidates
from phmrun.decoding.greedy import greedy_search
from phmrun.decoding.hypothesis import Hypothesis, Penalty, length_penalty
from phmrun.decoding.step import LEAVING_PART, State, StepDecoder
from phmrun.errors import PhmrunError

# No live hypothesis can exceed the threshold of a finished sentence.
_CLOSED = float("inf")
_IMPOSSIBLE = float("-inf")


def beam_search(
    decoder: StepDecoder[State],
    source: Tensor,
    *,
    beam: int,
    alpha: float,
    bos: int,
    eos: int,
    pad: int,
    max_lengths: Tensor | Sequence[int],
    nbest: int = 1,
    penalty: Penalty = "gnmt",
) -> list[list[Hypothesis]]:
    """Finds the best outputs of a batch of sources; call it under ``torch.inference_mode``.

    Args:
        decoder: The model.
        source: ``[batch, source_length]``, filled up with ``pad``.
        beam: Live hypotheses per sentence; 1 is greedy search.
        alpha: Exponent of the length penalty, at least 0; 0 ranks by log-probability.
        bos: The token that starts an output; never generated.
        eos: The token that ends an output.
        pad: The padding token; never generated.
        max_lengths: The most tokens to generate for each sentence, ``eos`` counted, ``[batch]``.
        nbest: Hypotheses to return per sentence, at most ``beam``.
        penalty: The length penalty's form.

    Returns:
        For each sentence its best hypotheses, best first, all different; fewer than ``nbest`` where fewer were found,
        at least one.

    Raises:
        PhmrunError: A setting is out of range.
    """
    limits = [int(limit) for limit in (max_lengths.tolist() if isinstance(max_lengths, Tensor) else max_lengths)]
    _check(beam=beam, alpha=alpha, nbest=nbest, limits=limits, batch=source.shape[0])
    if not limits:
        return []
    if beam == 1:
        tokens = {"bos": bos, "eos": eos, "pad": pad}
        greedy = greedy_search(decoder, source, alpha=alpha, penalty=penalty, max_lengths=limits, **tokens)
        return [[best] for best in greedy]
    return _search(decoder, source, _Book(beam, alpha, nbest, limits, penalty), bos, eos, pad)


def _search(
    decoder: StepDecoder[State], source: Tensor, book: "_Book", bos: int, eos: int, pad: int
) -> list[list[Hypothesis]]:
    """The search itself, for any beam."""
    beam, device = book.beam, source.device
    state = decoder.start(source)
    tokens = torch.full((source.shape[0], 1), bos, device=device)
    forbidden = torch.tensor([pad, bos], device=device)
    stay = torch.arange(beam, device=device).expand(source.shape[0], beam)
    scores: Tensor | None = None
    for step in range(1, max(book.limits) + 1):
        log_probs = log_probabilities(decoder.step(tokens, state), forbidden)
        if scores is None:
            scores = log_probs.new_zeros(tokens.shape)
        at_limit = book.at_limit(step)
        if any(at_limit):
            only_token(log_probs, torch.tensor(at_limit, device=device), eos)
        scores, parents, tokens = top_candidates(log_probs, scores, 2 * beam)
        ends = tokens == eos
        if bool(ends[:, :beam].any()):
            book.record(step, ends[:, :beam].nonzero().tolist(), scores[:, :beam].tolist(), parents[:, :beam].tolist())
            alive = ends.to(torch.uint8).sort(dim=-1, stable=True).indices[:, :beam]
            scores, parents, tokens = scores.gather(1, alive), parents.gather(1, alive), tokens.gather(1, alive)
        else:
            scores, parents, tokens = scores[:, :beam], parents[:, :beam], tokens[:, :beam]
        tokens, parents = tokens.contiguous(), parents.contiguous()
        book.history.append((tokens, parents, book.row_of))
        if any(at_limit):
            book.close(at_limit, step)
        done = scores[:, 0] <= book.thresholds_like(scores)
        number = int(done.sum())
        if number > book.done:
            book.close(done.tolist(), step)
        if number == len(book.sentences):
            break
        if number >= LEAVING_PART * len(book.sentences):
            staying = (~done).nonzero().squeeze(1)
            state = decoder.select(state, staying)
            scores, parents, tokens = scores[staying], parents[staying], tokens[staying]
            book.keep(staying.tolist())
        if parents.shape[1] != log_probs.shape[1] or not torch.equal(parents, stay[: parents.shape[0]]):
            state = decoder.reorder(state, parents)
    return book.results()


@dataclass(frozen=True, slots=True)
class _Ending:
    """A finished hypothesis: its ``eos`` is token number ``step``, after the hypothesis that was in ``beam`` then."""

    score: float
    log_prob: float
    step: int
    beam: int


@dataclass
class _Book:
    """What the search knows about its sentences; plain Python, touched only when a hypothesis or a sentence ends.

    ``thresholds`` has, for each row, the log-probability that a live hypothesis must exceed to matter; ``history`` has
    the tokens and parents of every step and the row that each sentence had in them.
    """

    beam: int
    alpha: float
    nbest: int
    limits: list[int]
    penalty: Penalty
    done: int = 0
    history: list[tuple[Tensor, Tensor, dict[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sentences = list(range(len(self.limits)))
        self.row_of = {sentence: sentence for sentence in self.sentences}
        self.thresholds = [_IMPOSSIBLE] * len(self.limits)
        self.endings: list[list[_Ending]] = [[] for _ in self.limits]
        self._last_steps = frozenset(self.limits)
        self._tensor: Tensor | None = None

    def at_limit(self, step: int) -> list[bool]:
        """For each row whether this step is its sentence's last; empty if it is for none."""
        if step not in self._last_steps:
            return []
        return [self.limits[sentence] == step for sentence in self.sentences]

    def record(self, step: int, ends: list[list[int]], scores: list[list[float]], parents: list[list[int]]) -> None:
        """Takes the hypotheses that end at this step; ``ends`` has their rows and places among the candidates."""
        touched = set()
        for row, place in ends:
            log_prob = scores[row][place]
            if self.thresholds[row] == _CLOSED or not log_prob > _IMPOSSIBLE:
                continue
            score = log_prob / length_penalty(step, self.alpha, self.penalty)
            self.endings[self.sentences[row]].append(_Ending(score, log_prob, step, parents[row][place]))
            touched.add(row)
        for row in touched:
            endings = self.endings[self.sentences[row]]
            if len(endings) >= self.beam:
                self.thresholds[row] = _CLOSED
            elif len(endings) >= self.nbest:
                worst = sorted((ending.score for ending in endings), reverse=True)[self.nbest - 1]
                self.thresholds[row] = worst * length_penalty(
                    self.limits[self.sentences[row]], self.alpha, self.penalty
                )
        if touched:
            self._tensor = None

    def close(self, rows: list[bool], step: int) -> None:
        """Finishes these rows; until they leave the batch they go on to no effect."""
        for row, done in enumerate(rows):
            if not done or self.thresholds[row] == _CLOSED:
                continue
            self.thresholds[row] = _CLOSED
            if not self.endings[self.sentences[row]]:
                # The model holds every way to end for impossible: the likeliest prefix stands for an output.
                self.endings[self.sentences[row]].append(_Ending(_IMPOSSIBLE, _IMPOSSIBLE, step, 0))
        self.done = sum(threshold == _CLOSED for threshold in self.thresholds)
        self._tensor = None

    def keep(self, rows: list[int]) -> None:
        """Drops all other rows from the batch."""
        self.sentences = [self.sentences[row] for row in rows]
        self.thresholds = [self.thresholds[row] for row in rows]
        self.row_of = {sentence: row for row, sentence in enumerate(self.sentences)}
        self.done = 0
        self._tensor = None

    def thresholds_like(self, scores: Tensor) -> Tensor:
        """The thresholds ``[rows]`` as a tensor, made anew only when they changed."""
        if self._tensor is None:
            self._tensor = torch.tensor(self.thresholds, dtype=scores.dtype, device=scores.device)
        return self._tensor

    def results(self) -> list[list[Hypothesis]]:
        """The best hypotheses of every sentence."""
        trails = [(tokens.tolist(), parents.tolist(), row_of) for tokens, parents, row_of in self.history]
        results = []
        for sentence, endings in enumerate(self.endings):
            # Sorting is stable: of equal scores the one found first, and of one step the more probable, comes first.
            best = sorted(endings, key=lambda ending: -ending.score)[: self.nbest]
            results.append([self._hypothesis(sentence, ending, trails) for ending in best])
        return results

    @staticmethod
    def _hypothesis(
        sentence: int,
        ending: _Ending,
        trails: list[tuple[list[list[int]], list[list[int]], dict[int, int]]],
    ) -> Hypothesis:
        """Follows the parents back from an ending to the first token."""
        backwards = []
        beam = ending.beam
        for tokens, parents, row_of in reversed(trails[: ending.step - 1]):
            row = row_of[sentence]
            backwards.append(tokens[row][beam])
            beam = parents[row][beam]
        return Hypothesis(backwards[::-1], ending.score, ending.log_prob)


def _check(*, beam: int, alpha: float, nbest: int, limits: list[int], batch: int) -> None:
    """Raises for settings that make no search."""
    if beam < 1:
        raise PhmrunError(f"a beam must have at least 1 hypothesis, not {beam}", where="decoding.beam")
    if not 0.0 <= alpha < float("inf"):
        raise PhmrunError(f"the length penalty's exponent must be at least 0, not {alpha}", where="decoding.alpha")
    if not 1 <= nbest <= beam:
        raise PhmrunError(
            f"a beam of {beam} cannot give {nbest} hypotheses",
            where="decoding.nbest",
            valid=[f"1 to {beam}"],
            hint="Ask for fewer, or for a larger beam.",
        )
    if len(limits) != batch or any(limit < 1 for limit in limits):
        raise ValueError(f"max_lengths needs one length of at least 1 for each of {batch} sentences, got {limits}")
