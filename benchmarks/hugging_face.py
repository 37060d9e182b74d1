"""Hugging Face model with the sizes of a run's Transformer.

With pre-norm, it is M2M100 with the run's own weights: its logits are the same, and outputs end where the model ends
them. Otherwise it is a MarianMT model with random weights. Its speed does not depend on them if the number of decoding
steps is fixed.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.systems import Sources
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import ParallelBatch
from phmrun.layers import FeedForward, MultiheadAttention, folded
from phmrun.models.incremental import joined
from phmrun.models.transformer import (
    ONE_TABLE,
    DecoderLayer,
    EncoderDecoder,
    EncoderLayer,
    Transformer,
    with_tables,
)
from phmrun.text.vocabulary import BOS, EOS, PAD

LONGEST = 1024  # maximum number of positions
IGNORED = -100  # label of positions without a next token


def transformers_library() -> Any:
    """Import and return the package ``transformers``.

    Raises:
        PhmrunError: It is not installed; the hint has the command.
    """
    try:
        import transformers
    except ImportError as error:
        raise PhmrunError(
            "the comparison with Hugging Face needs the package transformers",
            where="--against",
            hint='Install it: pip install "phmrun[transformers]".',
        ) from error
    return transformers


class HuggingFace:
    """Transformer of Hugging Face like a run's.

    It has the sizes, dropouts and tying of the run's ``model`` section.

    Args:
        model: Section of the configuration.
        source_size: Entries of the source vocabulary.
        target_size: Entries of the target vocabulary.
        smoothing: ε of the label smoothing.
        alpha: Exponent of the length penalty in beam search, which divides by ``length ** alpha``.
        device: Device of the model.
        weights: Network to copy the weights from, see :func:`has_place_for`; random weights if None.

    Raises:
        PhmrunError: The package ``transformers`` is not installed.

    With ``weights``, the model is M2M100 without dropped layers, otherwise MarianMT; ``network`` is the same object.
    """

    def __init__(
        self,
        model: Any,
        source_size: int,
        target_size: int,
        *,
        smoothing: float,
        alpha: float,
        device: Any,
        weights: Transformer | None = None,
    ) -> None:
        transformers = transformers_library()
        sizes: dict[str, Any] = {
            "vocab_size": source_size,
            "d_model": model.width,
            "encoder_layers": model.encoder_layers,
            "decoder_layers": model.decoder_layers,
            "encoder_attention_heads": model.heads,
            "decoder_attention_heads": model.heads,
            "encoder_ffn_dim": model.feedforward,
            "decoder_ffn_dim": model.feedforward,
            "dropout": model.dropout,
            "attention_dropout": model.attention_dropout,
            "activation_dropout": model.activation_dropout,
            "activation_function": "relu",
            "max_position_embeddings": LONGEST,
            "scale_embedding": True,
            "tie_word_embeddings": model.tie in ("all", "decoder"),
            "pad_token_id": PAD,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "decoder_start_token_id": BOS,
            "forced_eos_token_id": None,
        }
        self.model: Any
        if weights is not None:
            # M2M100's default drops 5 % of its layers in training; the run's network drops none.
            config = transformers.M2M100Config(**sizes, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
            self.model = transformers.M2M100ForConditionalGeneration(config).to(device)
            _set_weights(self.model.model, with_tables(folded(weights)))
        else:
            tied = {"share_encoder_decoder_embeddings": model.tie in ONE_TABLE, "decoder_vocab_size": target_size}
            self.model = transformers.MarianMTModel(transformers.MarianConfig(**sizes, **tied)).to(device)
        self.network: nn.Module = self.model
        self.smoothing = smoothing
        self.alpha = alpha

    def loss(self, batch: ParallelBatch) -> Tensor:
        """Return the label-smoothed cross-entropy in nats, summed over ``batch.positions``.

        Logits are computed at all positions, padding included.
        """
        logits = self.model(
            input_ids=batch.source, attention_mask=batch.source.ne(PAD), decoder_input_ids=batch.target, use_cache=False
        ).logits.flatten(0, 1)
        labels = torch.full(logits.shape[:1], IGNORED, device=logits.device)
        labels[batch.positions] = batch.wanted
        return F.cross_entropy(logits, labels, ignore_index=IGNORED, label_smoothing=self.smoothing, reduction="sum")

    def decode(self, sources: Sources, beam: int) -> Tensor:
        """Decode with ``generate`` and its key–value cache, in eval mode.

        Searches greedily if ``beam`` is 1. Makes at most as many steps as the greatest of ``sources.limits``; exactly
        as many if ``sources.exact``. The length penalty applies in beam search only.

        Returns:
            Token ids ``[batch, 1 + steps]``, the first of each row BOS.
        """
        steps = max(sources.limits)
        outputs: Tensor = self.model.eval().generate(
            input_ids=sources.tokens,
            attention_mask=sources.tokens.ne(PAD),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=steps if sources.exact else None,
            max_new_tokens=steps,
            length_penalty=self.alpha if beam > 1 else None,
            use_cache=True,
        )
        return outputs


def has_place_for(network: Transformer, model: Any) -> bool:
    """Return True if M2M100 can hold a network's weights.

    It needs sinusoidal positions, pre-norm with layer normalization, ReLU, one table for all, no upsampling, no head
    width of its own and no output bias.

    Args:
        network: Network with the weights.
        model: ``model`` section of its configuration.
    """
    pre_norm = network.positions is not None and isinstance(network.encoder_norm, nn.LayerNorm)
    usual_sizes = model.upsample == 1 and model.head_width is None
    return pre_norm and model.activation == "relu" and model.tie == "all" and usual_sizes and not model.output_bias


@torch.no_grad()
def _set_weights(theirs: Any, ours: EncoderDecoder) -> None:
    """Copy the weights and position vectors of ``ours`` into ``theirs``, in place.

    ``ours`` is folded, so that its maps and tables are plain torch modules. Position vectors are copied after the row
    of padding.
    """
    theirs.shared.weight.copy_(cast(nn.Embedding, ours.source_embedding).weight)
    for side, layers, norm in (
        (theirs.encoder, ours.encoder, ours.encoder_norm),
        (theirs.decoder, ours.decoder, ours.decoder_norm),
    ):
        for place, layer in zip(side.layers, cast(list[EncoderLayer | DecoderLayer], list(layers)), strict=True):
            _set_attention(place.self_attn, cast(MultiheadAttention, layer.attention.block))
            _set(place.self_attn_layer_norm, layer.attention.norm)
            if isinstance(layer, DecoderLayer):
                _set_attention(place.encoder_attn, cast(MultiheadAttention, layer.cross.block))
                _set(place.encoder_attn_layer_norm, layer.cross.norm)
            feedforward = cast(FeedForward, layer.feedforward.block)
            _set(place.fc1, feedforward.expand)
            _set(place.fc2, feedforward.contract)
            _set(place.final_layer_norm, layer.feedforward.norm)
        _set(side.layer_norm, norm)
        positions = side.embed_positions.weights  # the first word's position follows that of padding
        positions[PAD + 1 :] = ours.positions(len(positions) - PAD - 1)  # type: ignore[misc]


def _set_attention(theirs: Any, ours: MultiheadAttention) -> None:
    """Copy the maps of queries, keys, values and output, in place.

    Without biases of ours, those of ``theirs`` become 0.
    """
    joint = joined([cast(nn.Linear, project) for project in ours.project])
    biases = (None,) * 3 if joint.bias is None else joint.bias.chunk(3)
    for name, weight, bias in zip(("q_proj", "k_proj", "v_proj"), joint.weight.chunk(3), biases, strict=True):
        _put(getattr(theirs, name), weight, bias)
    _set(theirs.out_proj, ours.output)


def _set(theirs: Any, ours: Any) -> None:
    """Copy weight and bias of a map or norm into ``theirs``, in place.

    If ``ours`` has no bias, that of ``theirs`` becomes 0.
    """
    _put(theirs, ours.weight, ours.bias)


def _put(theirs: Any, weight: Tensor, bias: Tensor | None) -> None:
    """Copy a weight and a bias into the module ``theirs``, in place.

    If ``bias`` is None, its bias becomes 0.
    """
    theirs.weight.copy_(weight)
    theirs.bias.copy_(torch.zeros_like(theirs.bias) if bias is None else bias)
