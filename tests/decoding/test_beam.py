"""Beam search against exhaustive search, against a slow search, and against itself in other batches."""

import random

import pytest
import torch
from table_decoder import (
    BOS,
    EOS,
    PAD,
    TableDecoder,
    exhaustive,
    log_prob_of,
    padded,
    penalty,
    slow_beam_search,
    sources_of,
)

from phmrun.decoding.beam import _Book, _search, beam_search


def run(decoder, sources, *, beam, alpha, limits, nbest=1):
    with torch.inference_mode():
        return beam_search(
            decoder,
            padded(sources),
            beam=beam,
            alpha=alpha,
            max_lengths=list(limits),
            nbest=nbest,
        )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("vocabulary", "length"), [(4, 4), (5, 4), (5, 3), (6, 3), (5, 1)])
def test_a_wide_beam_is_exhaustive(vocabulary, length, alpha):
    for seed in range(10):
        decoder = TableDecoder(vocabulary, seed)
        sources = sources_of(3, seed)
        wide = vocabulary**length
        actual = run(decoder, sources, beam=wide, alpha=alpha, limits=[length] * 3, nbest=min(wide, 5))
        for source, hypotheses in zip(sources, actual, strict=True):
            expected = exhaustive(decoder, source, length, alpha)[:5]
            assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens in expected]
            assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for score, _ in expected])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("beam", [2, 3, 5])
def test_equals_the_slow_search(beam, alpha):
    for seed in range(12):
        draw = random.Random(seed)
        decoder = TableDecoder(draw.choice([4, 7, 20, 300]), seed, ending=draw.choice([0.0, 2.0, 4.0]))
        sources = sources_of(4, seed)
        limits = [draw.randrange(1, 9) for _ in sources]
        nbest = draw.randrange(1, beam + 1)
        actual = run(decoder, sources, beam=beam, alpha=alpha, limits=limits, nbest=nbest)
        for source, limit, hypotheses in zip(sources, limits, actual, strict=True):
            expected = slow_beam_search(decoder, source, beam, alpha, limit)[:nbest]
            assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens in expected]
            assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for score, _ in expected])


@pytest.mark.parametrize("levels", [0, 2, 5])
def test_the_batch_does_not_matter(levels):
    """64 sentences together, in another order, and one by one: the same to the last bit, in float64, ties or not."""
    decoder = TableDecoder(30, 1, levels=levels, ending=0.0 if levels == 2 else 2.0)
    sources = sources_of(64)
    limits = [3 + len(source) * 2 for source in sources]
    together = run(decoder, sources, beam=4, alpha=0.6, limits=limits, nbest=3)
    alone = [
        run(decoder, [source], beam=4, alpha=0.6, limits=[limit], nbest=3)[0]
        for source, limit in zip(sources, limits, strict=True)
    ]
    order = random.Random(7).sample(range(64), 64)
    shuffled = run(decoder, [sources[i] for i in order], beam=4, alpha=0.6, limits=[limits[i] for i in order], nbest=3)
    assert decoder.selects > 0
    assert together == alone
    assert [together[i] for i in order] == shuffled


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_greedy_is_the_chain_of_best_tokens_and_a_beam_of_one(alpha):
    for seed in range(20):
        decoder = TableDecoder(9, seed)
        sources = sources_of(6, seed)
        limits = [random.Random(seed).randrange(1, 12) for _ in sources]
        actual = run(decoder, sources, beam=1, alpha=alpha, limits=limits)
        with torch.inference_mode():
            general = _search(decoder, padded(sources), _Book(1, alpha, 1, limits, "gnmt"))
        for source, limit, first, other in zip(sources, limits, actual, general, strict=True):
            chain: list[int] = []
            while len(chain) < limit - 1:
                scores = decoder.log_probs(source, (BOS, *chain))
                best = max((token for token in range(9) if token not in (PAD, BOS)), key=scores.__getitem__)
                if best == EOS:
                    break
                chain.append(best)
            assert first[0].tokens == other[0].tokens == chain
            assert first[0].log_prob == pytest.approx(log_prob_of(decoder, source, chain))
            assert first[0].score == pytest.approx(first[0].log_prob / penalty(len(chain) + 1, alpha))
            assert first == other


class Fixed:
    """A decoder with the same log-probabilities everywhere, fed and scored in one go; it keeps no state."""

    def __init__(self, row):
        self.row = torch.tensor(row, dtype=torch.float64).log()
        self.steps = 0

    def start(self, source):
        return None

    def step(self, tokens, state):
        self.steps += 1
        return self.row.expand(*tokens.shape, -1)

    def reorder(self, state, beams):
        return state

    def select(self, state, sentences):
        return state


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_that_cannot_end_gives_its_likeliest_prefix(beam):
    actual = run(Fixed([0.0, 0.3, 0.0, 0.0, 0.7]), [(4,), (5,)], beam=beam, alpha=0.6, limits=[4, 2])
    assert [hypotheses[0].tokens for hypotheses in actual] == [[4, 4, 4], [4]]
    assert actual[0][0].log_prob == float("-inf")


def test_finished_sentences_leave_the_batch():
    decoder = TableDecoder(30, 2)
    sources = sources_of(32)
    limits = [2] * 24 + [20] * 8
    run(decoder, sources, beam=3, alpha=0.6, limits=limits)
    assert decoder.rows < 32 * 3 * decoder.steps / 2
    assert decoder.selects >= 1


@pytest.mark.parametrize("beam", [1, 4])
def test_the_power_penalty_divides_by_the_length(beam):
    decoder, sources = TableDecoder(8, 3), sources_of(5, 3)
    settings = {"beam": beam, "max_lengths": [9] * 5}
    with torch.inference_mode():
        actual = beam_search(decoder, padded(sources), alpha=0.8, penalty="power", **settings)
        gnmt = beam_search(decoder, padded(sources), alpha=0.8, **settings)
    for power, usual in zip(actual, gnmt, strict=True):
        for best, divisor in ((power[0], len(power[0].tokens) + 1), (usual[0], (6 + len(usual[0].tokens)) / 6)):
            assert best.score == pytest.approx(best.log_prob / divisor**0.8)
