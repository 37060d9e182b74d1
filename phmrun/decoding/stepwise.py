"""Beam search of Demir and Barutçu's PHM+, with a length penalty at every step.

The score of a hypothesis is Π p_t / (t + 1)^α over its tokens t = 2 … (the first has no penalty). Each hypothesis is
continued by its ``beam`` best tokens, and the best ``beam`` of all are kept. As in the released notebook, a finished
hypothesis stays only if the last one of the beam is finished, too. A search ends if all are finished, or at the length
limit.
Source: github.com/demegire/Parameterization-of-Hypercomplex-Multiplications, cell 64 of the notebooks (MIT).
"""

import math

import torch
from torch import Tensor

from phmrun.decoding.beam import Hypothesis
from phmrun.decoding.step import State, StepDecoder
from phmrun.text.vocabulary import BOS, EOS


def stepwise_search(
    decoder: StepDecoder[State],
    source: Tensor,
    *,
    beam: int,
    alpha: float,
    max_lengths: list[int],
    nbest: int = 1,
) -> list[list[Hypothesis]]:
    """Return the best outputs of a batch of sources, best first.

    The arguments are those of :func:`beam_search`. A sentence's outputs are those of the first step at which all end,
    or at its length limit; there an output may lack the end token. At least two tokens are decoded, whatever the
    limit. ``PAD`` and ``BOS`` are not excluded. Scores are logarithms of the product above.
    """
    state = decoder.start(source)
    tokens = torch.full((source.shape[0], 1), BOS, device=source.device)
    best = torch.log_softmax(decoder.step(tokens, state), -1)[:, 0].topk(beam)
    scores = log_probs = best.values
    tokens = best.indices
    outputs = tokens.unsqueeze(2)
    state = decoder.reorder(state, torch.zeros_like(tokens))
    results: dict[int, list[Hypothesis]] = {}
    for step in range(2, max([*max_lengths, 2]) + 1):
        finished = tokens == EOS
        top = torch.log_softmax(decoder.step(tokens, state), -1).topk(beam)
        grown = scores.unsqueeze(2) + top.values - alpha * math.log(step + 1)
        grown = grown.masked_fill(finished.unsqueeze(2), -math.inf).flatten(1)
        kept = scores.masked_fill(~(finished & finished[:, -1:]), -math.inf)
        scores, choice = torch.cat([grown, kept], 1).sort(dim=1, descending=True, stable=True)
        scores, choice = scores[:, :beam], choice[:, :beam]
        stays = choice >= beam * beam
        parents = torch.where(stays, choice - beam * beam, choice // beam)
        tokens = top.indices.flatten(1).gather(1, choice.clamp(max=beam * beam - 1)).masked_fill(stays, EOS)
        step_log_probs = top.values.flatten(1).gather(1, choice.clamp(max=beam * beam - 1)).masked_fill(stays, 0.0)
        log_probs = log_probs.gather(1, parents) + step_log_probs
        before = outputs.gather(1, parents.unsqueeze(2).expand(-1, -1, outputs.shape[2]))
        outputs = torch.cat([before, tokens.unsqueeze(2)], dim=2)
        for row, ended in enumerate((tokens == EOS).all(1).tolist()):
            if row not in results and (ended or step >= max_lengths[row]):
                hypotheses = zip(outputs[row].tolist(), scores[row], log_probs[row], strict=True)
                results[row] = [
                    Hypothesis([token for token in output if token != EOS], float(score), float(log_prob))
                    for output, score, log_prob in hypotheses
                ][:nbest]
        if len(results) == len(tokens):
            break
        state = decoder.reorder(state, parents)
    return [results[row] for row in range(len(tokens))]
