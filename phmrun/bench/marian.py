"""Hugging Face's MarianMT model, of the sizes of a run's Transformer: what a user would take instead.

Its weights are random: its norms stand after each block and its position vectors are spaced differently, so that ours
would not fit. Speed does not depend on their values while the number of decoding steps is given.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.bench.systems import Sources
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import ParallelBatch
from phmrun.text.vocabulary import BOS, EOS, PAD

LONGEST = 1024
"""Positions; longer sentences would need more."""
IGNORED = -100
"""The label of a position without a next token."""


def transformers_library() -> Any:
    """The package ``transformers``.

    Raises:
        PhmrunError: It is not installed.
    """
    try:
        import transformers
    except ImportError as error:
        raise PhmrunError(
            "the comparison with Hugging Face needs the package transformers",
            where="--against",
            hint='Install it: pip install "phmrun[bench]".',
        ) from error
    return transformers


class Marian:
    """A MarianMT model with random weights.

    Args:
        model: The run's ``model`` section: sizes, dropouts, tying.
        source_size: Source vocabulary entries.
        target_size: Target vocabulary entries.
        smoothing: ε of the label smoothing.
        alpha: Exponent of its own length penalty in beam search.
        device: Where to compute.

    Raises:
        PhmrunError: The package ``transformers`` is not installed.
    """

    def __init__(
        self, model: Any, source_size: int, target_size: int, *, smoothing: float, alpha: float, device: Any
    ) -> None:
        transformers = transformers_library()
        config = transformers.MarianConfig(
            vocab_size=source_size,
            decoder_vocab_size=target_size,
            d_model=model.width,
            encoder_layers=model.encoder_layers,
            decoder_layers=model.decoder_layers,
            encoder_attention_heads=model.heads,
            decoder_attention_heads=model.heads,
            encoder_ffn_dim=model.feedforward,
            decoder_ffn_dim=model.feedforward,
            dropout=model.dropout,
            attention_dropout=model.attention_dropout,
            activation_dropout=model.activation_dropout,
            activation_function="relu",
            max_position_embeddings=LONGEST,
            scale_embedding=True,
            share_encoder_decoder_embeddings=model.tie == "all",
            tie_word_embeddings=model.tie != "none",
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
        self.model: Any = transformers.MarianMTModel(config).to(device)
        self.smoothing = smoothing
        self.alpha = alpha

    @property
    def network(self) -> nn.Module:
        """What is trained."""
        network: nn.Module = self.model
        return network

    def loss(self, batch: ParallelBatch) -> Tensor:
        """Its logits at every position, padding included, and torch's label-smoothed cross-entropy."""
        logits = self.model(
            input_ids=batch.source, attention_mask=batch.source.ne(PAD), decoder_input_ids=batch.target, use_cache=False
        ).logits.flatten(0, 1)
        labels = torch.full(logits.shape[:1], IGNORED, device=logits.device)
        labels[batch.positions] = batch.wanted
        return F.cross_entropy(logits, labels, ignore_index=IGNORED, label_smoothing=self.smoothing, reduction="sum")

    def decode(self, sources: Sources, beam: int) -> None:
        """``generate`` with its key–value cache, for just so many steps as the longest limit says."""
        self.generate(sources, beam)

    def generate(self, sources: Sources, beam: int) -> Tensor:
        """The tokens ``[batch, 1 + steps]``."""
        steps = max(sources.limits)
        outputs: Tensor = self.model.eval().generate(
            input_ids=sources.tokens,
            attention_mask=sources.tokens.ne(PAD),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=steps,
            max_new_tokens=steps,
            length_penalty=self.alpha if beam > 1 else None,
            use_cache=True,
        )
        return outputs
