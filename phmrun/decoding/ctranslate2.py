"""Search by the inference engine CTranslate2: the same beam search as :mod:`phmrun.decoding.beam`, in C++.

It divides log-probabilities by length^α, so that its outputs are those of ``penalty="power"``. Tokens that our search
rules out, padding and the beginning, it is left free to generate: a trained network gives them no chance, and ruled
out, they would change the probabilities of the others.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from phmrun.decoding.beam import Hypothesis, length_penalty
from phmrun.errors import PhmrunError


class CTranslate2Model:
    """A converted model in the engine.

    Args:
        directory: The converted model.
        names: The name of each target token, by number.
        source_names: The same for source tokens.
        arithmetic: In what numbers it computes, as the engine names them; where the processor lacks them, the engine
            takes the nearest that it has.
        device: "cpu", "cuda" or "cuda:1".
    """

    def __init__(
        self,
        directory: Path,
        names: Sequence[str],
        source_names: Sequence[str],
        *,
        arithmetic: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        import ctranslate2

        place = torch.device(device)
        available = ctranslate2.get_supported_compute_types(place.type)
        self.translator = ctranslate2.Translator(
            str(directory),
            device=place.type,
            device_index=place.index or 0,
            compute_type=arithmetic if arithmetic in available else "default",
            intra_threads=torch.get_num_threads(),
        )
        self.source_names = source_names
        self.numbers = {name: number for number, name in enumerate(names)}

    @property
    def signature(self) -> str:
        """The engine, its version and the arithmetic that it really uses, as ``key:value`` pairs."""
        import ctranslate2

        return f"engine:ctranslate2-{ctranslate2.__version__}|arithmetic:{self.translator.compute_type}"

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        *,
        beam: int,
        alpha: float,
        nbest: int = 1,
        at_least: int = 0,
    ) -> list[list[Hypothesis]]:
        """The best outputs of a batch of sources.

        Args:
            sources: Token numbers, without the end.
            limits: The most tokens to generate for each, the end counted. The engine knows one limit for a batch, so
                those that go beyond their own are searched for again with it.
            beam: Live hypotheses per sentence.
            alpha: Exponent of the length penalty.
            nbest: Hypotheses to return per sentence.
            at_least: The least tokens to generate for each; where that is the most, nothing is searched for again.

        Raises:
            PhmrunError: A source is longer than the model's table of positions.
        """
        found = self._batch(sources, max(limits), beam, alpha, nbest, at_least)
        if at_least == max(limits):
            return found
        for row, limit in enumerate(limits):
            if any(len(hypothesis.tokens) >= limit for hypothesis in found[row]):
                found[row] = self._batch([sources[row]], max(limit - 1, 1), beam, alpha, nbest)[0]
        return found

    def _batch(
        self, sources: Sequence[Sequence[int]], limit: int, beam: int, alpha: float, nbest: int, at_least: int = 0
    ) -> list[list[Hypothesis]]:
        names = [[self.source_names[token] for token in source] for source in sources]
        try:
            results = self.translator.translate_batch(
                names,
                beam_size=beam,
                length_penalty=alpha,
                num_hypotheses=nbest,
                max_decoding_length=limit,
                min_decoding_length=at_least,
                # 0: no limit. By default the engine cuts sources off after 1024 tokens, without a word.
                max_input_length=0,
                return_scores=True,
            )
        except (RuntimeError, ValueError) as error:
            longest = max(map(len, sources))
            raise PhmrunError(f"CTranslate2 could not translate a source of {longest} tokens: {error}") from error
        return [
            [
                Hypothesis(
                    [self.numbers[token] for token in tokens],
                    score,
                    score * length_penalty(len(tokens) + 1, alpha, "power"),
                )
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]
