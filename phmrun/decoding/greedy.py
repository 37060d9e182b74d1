"""Greedy search: beam search with a beam of 1, without what only more hypotheses need.

Shapes: ``rows`` sentences still in the batch, ``vocabulary`` target tokens.
"""

import torch
from torch import Tensor

from phmrun.decoding.candidates import log_probabilities, only_token
from phmrun.decoding.hypothesis import Hypothesis, Penalty, length_penalty
from phmrun.decoding.step import LEAVING_PART, State, StepDecoder


def greedy_search(
    decoder: StepDecoder[State],
    source: Tensor,
    *,
    alpha: float,
    bos: int,
    eos: int,
    pad: int,
    max_lengths: list[int],
    penalty: Penalty = "gnmt",
) -> list[Hypothesis]:
    """Takes the most probable token at every position, of equals the one with the lowest number.

    Args:
        decoder: The model.
        source: ``[batch, source_length]``, filled up with ``pad``.
        alpha: Exponent of the length penalty; it changes the score and nothing else.
        bos: The token that starts an output; never generated.
        eos: The token that ends an output.
        pad: The padding token; never generated.
        max_lengths: The most tokens to generate for each sentence, ``eos`` counted, ``[batch]``.
        penalty: The length penalty's form.
    """
    state = decoder.start(source)
    tokens = torch.full((source.shape[0],), bos, device=source.device)
    forbidden = torch.tensor([pad, bos], device=source.device)
    totals: Tensor | float = 0.0
    sentences = list(range(len(max_lengths)))
    row_of = {sentence: sentence for sentence in sentences}
    last_steps = frozenset(max_lengths)
    history: list[tuple[Tensor, dict[int, int]]] = []
    endings: dict[int, tuple[int, float]] = {}
    for step in range(1, max(max_lengths) + 1):
        log_probs = log_probabilities(decoder.step(tokens.unsqueeze(1), state), forbidden).squeeze(1)
        if step in last_steps:
            at_limit = [max_lengths[sentence] == step for sentence in sentences]
            only_token(log_probs, torch.tensor(at_limit, device=source.device), eos)
        best, tokens = log_probs.max(dim=-1)
        totals = totals + best
        history.append((tokens, row_of))
        # Where every token is impossible, the output ends as well.
        ended = (tokens == eos) | best.isneginf()
        if not bool(ended.any()):
            continue
        log_prob_of = totals.tolist()
        for row in ended.nonzero().squeeze(1).tolist():
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
