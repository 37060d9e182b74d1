"""Translators that benchmarks compare, with their timed calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from phmrun.decoding.beam import beam_search
from phmrun.exchange.ctranslate2_engine import CTranslate2Model
from phmrun.families.sequence_to_sequence.config import DecodingConfig
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.families.sequence_to_sequence.predictor import applications
from phmrun.layers.inference import Choice
from phmrun.models.incremental import DecoderState, IncrementalTransformer
from phmrun.text.vocabulary import EOS, PAD

NEVER = -1e9  # logit of an excluded token; finite, so that it can still end an output at its limit


class Sources(NamedTuple):
    """Sentences to decode together."""

    tokens: Tensor  # ``[batch, source]``, padded
    limits: list[int]  # maximum target tokens of each, EOS included
    exact: bool  # True: each output has exactly as many, so that all systems make the same steps


class Translating(Protocol):
    """System that translates."""

    def decode(self, sources: Sources, beam: int) -> object:
        """Decode the sentences with this beam; the caller ignores the result."""


class Ours:
    """Translation model of ours, moved to a device.

    It decodes with copies of its weights, unaffected by later training. Each call sets beam and batch size; those of
    ``search`` are ignored.
    """

    def __init__(self, module: SequenceToSequenceModule, search: DecodingConfig, device: str) -> None:
        self.module = module.to(device)
        self.device = device
        self.search = search
        self.decoders: dict[tuple[Choice, Choice], IncrementalTransformer] = {}

    def decoder(self, batch: int, beam: int) -> IncrementalTransformer:
        """Return the network prepared for decoding, for a batch and beam size.

        Built once for each way to apply the weights, with the weights of that moment. It uses measured kernels if the
        search's ``kernels`` are "measured".
        """
        parts = applications(self.search.model_copy(update={"batch": batch, "beam": beam}))
        if parts not in self.decoders:
            self.decoders[parts] = IncrementalTransformer(self.module.network, PAD, *parts)
            self.decoders[parts].measured_kernels = self.search.kernels == "measured"
            self.decoders[parts].in_bfloat16 = self.search.quantization == "bfloat16"
        return self.decoders[parts]

    def decode(self, sources: Sources, beam: int) -> None:
        """Run beam or greedy search as ``phmrun eval``.

        The outputs are discarded. If ``sources.exact``, outputs end only at their limits.
        """
        decoder = self.decoder(len(sources.limits), beam)
        beam_search(
            Endless(decoder) if sources.exact else decoder,
            sources.tokens,
            beam=beam,
            alpha=self.search.alpha,
            penalty=self.search.penalty,
            max_lengths=sources.limits,
        )


@dataclass(frozen=True)
class Converted:
    """Model of a translation run in CTranslate2."""

    model: CTranslate2Model
    search: DecodingConfig

    def decode(self, sources: Sources, beam: int) -> None:
        """Run the engine's search on token ids.

        The outputs are discarded. If ``sources.exact``, every output has at least as many tokens as the greatest limit.
        Padding and end tokens are removed from the sources.
        """
        rows = [[token for token in row if token not in (PAD, EOS)] for row in sources.tokens.tolist()]
        least = max(sources.limits) if sources.exact else 0
        self.model.search(rows, sources.limits, beam=beam, alpha=self.search.alpha, at_least=least)


class Endless:
    """Step decoder that never ends an output before its limit."""

    def __init__(self, decoder: IncrementalTransformer) -> None:
        self.start = decoder.start
        self.reorder = decoder.reorder
        self.select = decoder.select
        self._step = decoder.step

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Return the decoder's logits, with EOS set to ``NEVER``."""
        logits = self._step(tokens, state)
        logits[..., EOS] = NEVER
        return logits


def decoding(system: Translating, batches: Sequence[Sources], beam: int) -> Callable[[], None]:
    """Return a function that decodes all batches in inference mode."""

    def decode() -> None:
        with torch.inference_mode():
            for batch in batches:
                system.decode(batch, beam)

    return decode
