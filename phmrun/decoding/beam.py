"""Beam search over a ``StepDecoder``, and greedy search for a beam of 1.

In every step the ``2 * beam`` most probable continuations of a sentence are its candidates, of which at least ``beam``
do not end. Candidates among the best ``beam`` that end are finished hypotheses; the best ``beam`` that do not end stay
live. A sentence is finished when ``beam`` hypotheses are, or at its length limit, where every live hypothesis ends.
Finished hypotheses are ranked by ``log_prob / length_penalty``.

A sentence also stops when its result can no longer change. Log-probabilities only fall and the penalty is largest at
the length limit, so the score of a live hypothesis is at most ``log_prob / length_penalty(max_length)``.

Sentences are independent: results depend neither on the batch nor on the removal of finished sentences.
Shapes: ``batch`` sentences (``rows`` of them unfinished), ``beam`` hypotheses, ``vocabulary`` target tokens.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from phmrun.decoding.candidates import Candidates, log_probabilities, only_token, true_rows
from phmrun.decoding.step import LEAVING_PART, State, StepDecoder
from phmrun.text.vocabulary import BOS, EOS, PAD

Penalty = Literal["gnmt", "power", "steps"]
Facts = dict[int, list[float]]
"""By row, the best candidates of a sentence: which end (1 or 0), then their scores, then their parents."""
_CLOSED = float("inf")  # no live hypothesis can exceed the threshold of a finished sentence
_IMPOSSIBLE = float("-inf")


class Hypothesis(NamedTuple):
    """Output of the search.

    Attributes:
        tokens: Token numbers without the beginning- and end-of-sentence tokens; may be empty.
        score: Ranking score, ``log_prob / length_penalty(len(tokens) + 1, alpha, …)``.
        log_prob: Natural log-probability of the output, including its end-of-sentence token.
    """

    tokens: list[int]
    score: float
    log_prob: float


def length_penalty(length: int, alpha: float, penalty: Penalty = "gnmt") -> float:
    """Return the divisor of the log-probability of a hypothesis.

    "power": ``length ** alpha``, as in OpenNMT, CTranslate2 and Hugging Face. Otherwise ``((5 + length) / 6) ** alpha``
    (Wu et al. 2016, "Google's Neural Machine Translation System", equation 14, without coverage).

    Args:
        length: Tokens of the hypothesis, including the end-of-sentence token.
        alpha: Exponent; 0 ranks by log-probability, larger values favor longer outputs.
        penalty: Form of the penalty.
    """
    return float((length if penalty == "power" else (5.0 + length) / 6.0) ** alpha)


def beam_search(
    decoder: StepDecoder[State],
    source: Tensor,
    *,
    beam: int,
    alpha: float,
    max_lengths: list[int],
    nbest: int = 1,
    penalty: Penalty = "gnmt",
) -> list[list[Hypothesis]]:
    """Return the best outputs of a batch of sources.

    Outputs hold no ``BOS`` or ``PAD``. An empty batch gives an empty list. Call it under ``torch.inference_mode``.

    Args:
        decoder: Model.
        source: ``[batch, source_length]``, padded with ``PAD``.
        beam: Live hypotheses per sentence; 1 is greedy search.
        alpha: Exponent of the length penalty, at least 0; 0 ranks by log-probability.
        max_lengths: Largest number of tokens to generate for each sentence, the end token included.
        nbest: Hypotheses to return per sentence, at most ``beam``.
        penalty: Form of the length penalty.

    Returns:
        Hypotheses of each sentence, best first, all different: at least one, at most ``nbest``.
    """
    if not max_lengths:
        return []
    if beam == 1:
        best = greedy_search(decoder, source, alpha=alpha, max_lengths=max_lengths, penalty=penalty)
        return [[hypothesis] for hypothesis in best]
    return _search(decoder, source, _Book(beam, alpha, nbest, max_lengths, penalty))


def _search(decoder: StepDecoder[State], source: Tensor, book: "_Book") -> list[list[Hypothesis]]:
    """Return the best outputs by beam search, for any beam.

    ``book`` holds settings and limits, and is filled in place. Finished sentences leave the batch when they are at
    least 1/8 of it (``LEAVING_PART``).
    """
    beam, device = book.beam, source.device
    state = decoder.start(source)
    tokens = torch.full((source.shape[0], 1), BOS, device=device)
    forbidden = torch.tensor([PAD, BOS], device=device)
    stay = torch.arange(beam, device=device).expand(source.shape[0], beam)
    scores: Tensor | None = None
    for step in range(1, max(book.limits) + 1):
        log_probs = log_probabilities(decoder.step(tokens, state), forbidden)
        if scores is None:
            scores = log_probs.new_zeros(tokens.shape)
        at_limit = [book.limits[sentence] == step for sentence in book.sentences]
        if any(at_limit):
            only_token(log_probs, torch.tensor(at_limit, device=device), EOS)
        scores, parents, tokens, ends, facts = _best(log_probs, scores, beam)
        if facts:
            book.record(step, facts)
            alive = ends.to(torch.uint8).sort(dim=-1, stable=True).indices[:, :beam]
            scores, parents, tokens = scores.gather(1, alive), parents.gather(1, alive), tokens.gather(1, alive)
        else:
            scores, parents, tokens = scores[:, :beam], parents[:, :beam], tokens[:, :beam]
        tokens, parents = tokens.contiguous(), parents.contiguous()
        book.history.append((tokens, parents, book.row_of))
        if any(at_limit):
            book.close(at_limit, step)
        moved = (parents != stay[: len(parents)]).any(1)
        thresholds = torch.tensor(book.thresholds, dtype=scores.dtype, device=device)
        done, reordered = torch.stack([scores[:, 0] <= thresholds, moved]).tolist()
        book.close(done, step)
        number = sum(done)
        if number == len(book.sentences):
            break
        if number >= LEAVING_PART * len(book.sentences):
            staying = [row for row, leaves in enumerate(done) if not leaves]
            reordered = [reordered[row] for row in staying]
            rows = torch.tensor(staying, device=device)
            state = decoder.select(state, rows)
            scores, parents, tokens = scores[rows], parents[rows], tokens[rows]
            book.keep(staying)
        # The first step widens the beam from 1; later the cache stays if every hypothesis continues itself.
        if parents.shape[1] != log_probs.shape[1] or any(reordered):
            state = decoder.reorder(state, parents)
    return book.results()


def _best(log_probs: Tensor, totals: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Facts]:
    """Return scores, parents, tokens and ends of the candidates, and facts.

    The four tensors are ``[rows, 2 · beam]``, best first. Facts are those of rows one of whose best ``beam`` candidates
    ends. Reading synchronizes with a GPU, so everything is read at once, and again only if ties had to be broken.
    """
    candidates = Candidates(log_probs, totals, 2 * beam)
    while True:
        scores, parents, tokens = candidates.parts()
        ends = tokens == EOS
        best = [part[:, :beam] for part in (ends, scores, parents)]
        rows = torch.cat([candidates.tied.unsqueeze(1), *best], dim=1).tolist()
        tied = true_rows([row[0] for row in rows])
        if not tied:
            break
        candidates.break_ties(tied)
        candidates.tied = torch.zeros_like(candidates.tied)
    facts = {number: row[1:] for number, row in enumerate(rows) if any(row[1 : beam + 1])}
    return scores, parents, tokens, ends, facts


def greedy_search(
    decoder: StepDecoder[State],
    source: Tensor,
    *,
    alpha: float,
    max_lengths: list[int],
    penalty: Penalty = "gnmt",
) -> list[Hypothesis]:
    """Return the output with the most probable token at every position.

    Ties go to the lowest token number. Equivalent to beam search with a beam of 1, with the arguments of
    :func:`beam_search`. α only changes the score. An output also ends where every token is impossible.
    """
    state = decoder.start(source)
    tokens = torch.full((source.shape[0],), BOS, device=source.device)
    forbidden = torch.tensor([PAD, BOS], device=source.device)
    totals: Tensor | float = 0.0
    sentences = list(range(len(max_lengths)))
    row_of = {sentence: sentence for sentence in sentences}
    history: list[tuple[Tensor, dict[int, int]]] = []
    endings: dict[int, tuple[int, float]] = {}
    for step in range(1, max(max_lengths) + 1):
        log_probs = log_probabilities(decoder.step(tokens.unsqueeze(1), state), forbidden).squeeze(1)
        at_limit = [max_lengths[sentence] == step for sentence in sentences]
        if any(at_limit):
            only_token(log_probs, torch.tensor(at_limit, device=source.device), EOS)
        best, tokens = log_probs.max(dim=-1)
        totals = totals + best
        history.append((tokens, row_of))
        # The output also ends if every token is impossible.
        ended, log_prob_of = torch.stack([((tokens == EOS) | best.isneginf()).to(totals.dtype), totals]).tolist()
        if not any(ended):
            continue
        for row in true_rows(ended):
            endings.setdefault(sentences[row], (step, log_prob_of[row]))
        if len(endings) == len(max_lengths):
            break
        staying = [row for row, sentence in enumerate(sentences) if sentence not in endings]
        if len(sentences) - len(staying) >= LEAVING_PART * len(sentences):
            rows = torch.tensor(staying, device=source.device)
            state = decoder.select(state, rows)
            tokens, totals = tokens[rows], totals[rows]
            sentences = [sentences[row] for row in staying]
            row_of = {sentence: row for row, sentence in enumerate(sentences)}
    trails = [(kept.tolist(), rows_then) for kept, rows_then in history]
    results = []
    for sentence in range(len(max_lengths)):
        step, log_prob = endings[sentence]
        output = [kept[rows_then[sentence]] for kept, rows_then in trails[: step - 1]]
        results.append(Hypothesis(output, log_prob / length_penalty(step, alpha, penalty), log_prob))
    return results


class _Ending(NamedTuple):
    """Finished hypothesis, ended by token number ``step``.

    ``beam`` is the live hypothesis that it continues.
    """

    score: float
    log_prob: float
    step: int
    beam: int


@dataclass
class _Book:
    """State of the search on the CPU, updated only when a hypothesis or sentence ends.

    Attributes:
        beam: Live hypotheses per sentence. This and the next four are arguments of :func:`beam_search`.
        history: Tokens and parents ``[rows, beam]`` of every step, and the row of each sentence in them.
        sentences: Number of the sentence in each row of the batch.
        row_of: Row of each sentence in the batch.
        thresholds: Log-probability that a live hypothesis of each row must exceed to affect the result. Infinity for a
            closed row, minus infinity before ``nbest`` endings.
        endings: Finished hypotheses of each sentence.
    """

    beam: int
    alpha: float
    nbest: int
    limits: list[int]
    penalty: Penalty
    history: list[tuple[Tensor, Tensor, dict[int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sentences = list(range(len(self.limits)))
        self.row_of = {sentence: sentence for sentence in self.sentences}
        self.thresholds = [_IMPOSSIBLE] * len(self.limits)
        self.endings: list[list[_Ending]] = [[] for _ in self.limits]

    def record(self, step: int, facts: Facts) -> None:
        """Record the hypotheses that end at this step, and raise the rows' thresholds.

        Rows that are closed, and endings of probability 0, are ignored. A row is closed when it has ``beam`` endings.
        Before, and with at least ``nbest`` endings, its threshold is the log-probability that gives the ``nbest``-th
        best score at the length limit.
        """
        for row, values in facts.items():
            if self.thresholds[row] == _CLOSED:
                continue
            endings = self.endings[self.sentences[row]]
            scores, parents = values[self.beam :], values[2 * self.beam :]
            for place in true_rows(values[: self.beam]):
                if (log_prob := scores[place]) > _IMPOSSIBLE:
                    score = log_prob / length_penalty(step, self.alpha, self.penalty)
                    endings.append(_Ending(score, log_prob, step, int(parents[place])))
            if len(endings) >= self.beam:
                self.thresholds[row] = _CLOSED
            elif len(endings) >= self.nbest:
                worst = sorted((ending.score for ending in endings), reverse=True)[self.nbest - 1]
                limit = self.limits[self.sentences[row]]
                self.thresholds[row] = worst * length_penalty(limit, self.alpha, self.penalty)

    def close(self, rows: list[bool], step: int) -> None:
        """Close the rows that are True, in place; closed ones are left alone.

        A row without an ending gets its most probable prefix, of ``step`` - 1 tokens, with score minus infinity. Later
        hypotheses of a closed row have no effect.
        """
        for row, done in enumerate(rows):
            if not done or self.thresholds[row] == _CLOSED:
                continue
            self.thresholds[row] = _CLOSED
            if not self.endings[self.sentences[row]]:
                # The model gives every ending probability 0: return the most probable prefix.
                self.endings[self.sentences[row]].append(_Ending(_IMPOSSIBLE, _IMPOSSIBLE, step, 0))

    def keep(self, rows: list[int]) -> None:
        """Keep only the rows with these numbers in the batch, in place.

        They are renumbered in this order. The endings of all sentences stay.
        """
        self.sentences = [self.sentences[row] for row in rows]
        self.thresholds = [self.thresholds[row] for row in rows]
        self.row_of = {sentence: row for row, sentence in enumerate(self.sentences)}

    def results(self) -> list[list[Hypothesis]]:
        """Return the best ``nbest`` hypotheses of every sentence, best first.

        They are those that were recorded; ties go to the earlier step, then to the more probable hypothesis.
        """
        trails = [(tokens.tolist(), parents.tolist(), row_of) for tokens, parents, row_of in self.history]
        results = []
        for sentence, endings in enumerate(self.endings):
            # Sorting is stable: ties go to the earlier step, and within a step to the more probable hypothesis.
            best = []
            for ending in sorted(endings, key=lambda ending: -ending.score)[: self.nbest]:
                backwards, beam = [], ending.beam  # follow the parents back to the first token
                for tokens, parents, row_of in reversed(trails[: ending.step - 1]):
                    row = row_of[sentence]
                    backwards.append(tokens[row][beam])
                    beam = parents[row][beam]
                best.append(Hypothesis(backwards[::-1], ending.score, ending.log_prob))
            results.append(best)
        return results
