"""Beam search by the inference engine CTranslate2, equivalent to :mod:`phmrun.decoding.beam`.

The engine divides log-probabilities by length^α, as ``penalty="power"`` does. Unlike phmrun's search, it may generate
padding and beginning tokens. A trained network gives them negligible probability, and excluding them in the engine
would change the probabilities of other tokens.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from phmrun.decoding.beam import Hypothesis, length_penalty
from phmrun.errors import PhmrunError


class CTranslate2Model:
    """Converted model, loaded into the engine with torch's number of threads.

    Args:
        directory: Converted model.
        names: Names of the target tokens, by number.
        source_names: Names of the source tokens, by number.
        longest: Largest number of tokens of a source or an output, end token included; None: no limit.
        arithmetic: The engine's compute type; if the device does not support it, the engine uses its default.
        device: "cpu", "cuda" or "cuda:1".
    """

    def __init__(
        self,
        directory: Path,
        names: Sequence[str],
        source_names: Sequence[str],
        *,
        longest: int | None = None,
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
        self.longest = longest
        self.source_names = source_names
        self.numbers = {name: number for number, name in enumerate(names)}

    @property
    def signature(self) -> str:
        """Engine, version and effective compute type: ``engine:ctranslate2-4.5|arithmetic:int8``, for instance."""
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
        """Return the best outputs of a batch of sources, best first.

        The engine has a single length limit per batch, here the largest one. It does not count the end token. Sentences
        with an output as long as their limit or longer are therefore decoded again, separately and without
        ``at_least``; their new limit is one token less, at least 1. No limit is larger than ``longest``.

        Args:
            sources: Token numbers, without the end token.
            limits: Largest number of tokens to generate for each source, the end token included; at least one source.
            beam: Live hypotheses per sentence.
            alpha: Exponent of the length penalty.
            nbest: Hypotheses to return per sentence.
            at_least: Smallest number of tokens to generate; if it equals the largest limit, nothing is decoded again.

        Raises:
            PhmrunError: The engine fails, such as for a source longer than the model's table of positions.
        """
        limits = limits if self.longest is None else [min(limit, self.longest) for limit in limits]
        outputs = self._batch(sources, max(limits), beam, alpha, nbest, at_least)
        if at_least == max(limits):
            return outputs
        for row, limit in enumerate(limits):
            if any(len(hypothesis.tokens) >= limit for hypothesis in outputs[row]):
                outputs[row] = self._batch([sources[row]], max(limit - 1, 1), beam, alpha, nbest)[0]
        return outputs

    def _batch(
        self, sources: Sequence[Sequence[int]], limit: int, beam: int, alpha: float, nbest: int, at_least: int = 0
    ) -> list[list[Hypothesis]]:
        """Return the best outputs of a batch with one length limit, best first.

        Sources are not cut. The log-probability is the engine's score times the penalty of its length, end token
        included.

        Raises:
            PhmrunError: The engine fails.
        """
        names = [[self.source_names[token] for token in source] for source in sources]
        try:
            results = self.translator.translate_batch(
                names,
                beam_size=beam,
                length_penalty=alpha,
                num_hypotheses=nbest,
                max_decoding_length=limit,
                min_decoding_length=at_least,
                # 0: no limit. By default the engine silently truncates sources to 1024 tokens.
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
