"""Conversion of a trained Transformer to the inference engine CTranslate2.

A converted model is a directory with ``model.bin``, ``config.json``, the vocabulary, the SentencePiece models, and
``phmrun.json``, which identifies the weights and their run, and has the largest number of tokens. Structures are folded
into dense matrices.
"""

import math
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from phmrun.errors import PhmrunError
from phmrun.files import read_object, replacing_directory, write_json
from phmrun.layers import FeedForward, MultiheadAttention, folded
from phmrun.layers.factored_file import digest_of
from phmrun.layers.linear import GATED, plain_linear
from phmrun.models.incremental import joined
from phmrun.models.positions import RelativePositions
from phmrun.models.transformer import DecoderLayer, EncoderDecoder, EncoderLayer, Sublayer, Transformer, with_tables
from phmrun.registry import extra_package
from phmrun.text.token_names import token_names, write_models
from phmrun.text.vocabularies import Vocabularies

Quantization = Literal["none", "int8", "int8_float32", "bfloat16", "float16"]

POSITIONS = 1024  # length of the table of positions in a converted model
MARK = "phmrun.json"


def library() -> Any:
    """Import and return the package ``ctranslate2``.

    Raises:
        PhmrunError: (exit 2) It is not installed.
    """
    return extra_package("ctranslate2", "ctranslate2")


def converted(
    network: EncoderDecoder,
    vocabularies: Vocabularies,
    directory: Path,
    quantization: Quantization = "none",
    **facts: str,
) -> Path:
    """Write a converted model to ``directory``, unless it is there already.

    The same weights, vocabularies, quantization, library version and facts, as ``phmrun.json`` records them, count as
    the same model, if ``model.bin`` is there as well. Otherwise the directory is replaced as a whole. The vocabularies
    and SentencePiece models are written, too.

    Args:
        network: Trained Transformer.
        vocabularies: Vocabularies of both sides.
        directory: Where to write.
        quantization: Type of the weights; "none": 32 bits.
        **facts: Further entries of ``phmrun.json``.

    Returns:
        ``directory``.

    Raises:
        PhmrunError: (exit 2) The library is missing, or the network is not a Transformer.
    """
    mark = {
        "weights": digest_of(network.state_dict()),
        "vocabularies": [vocabularies.source.sha256, vocabularies.target.sha256],
        "quantization": quantization,
        "ctranslate2": library().__version__,
        "positions": longest_line(network),
        **facts,
    }
    if read_object(directory / MARK) == mark and (directory / "model.bin").is_file():
        return directory
    with replacing_directory(directory) as beside:
        specification = specification_of(network)
        specification.register_source_vocabulary(token_names(vocabularies.source))
        specification.register_target_vocabulary(token_names(vocabularies.target))
        specification.validate()
        specification.optimize(quantization=None if quantization == "none" else quantization)
        specification.save(str(beside))
        write_models(vocabularies, beside)
        write_json(beside / MARK, mark)
    return directory


def specification_of(network: EncoderDecoder) -> Any:
    """Return the network as CTranslate2's ``TransformerSpec``, without vocabularies.

    A folded copy is read; the network is unchanged. Sinusoidal positions become a table of 1,024 vectors
    (``POSITIONS``). The configuration makes the engine add the end token to sources.

    Raises:
        PhmrunError: (exit 2) The network is not a Transformer, or the library is missing.
    """
    if not isinstance(network, Transformer):
        hint = "`phmrun export RUN --format onnx` writes a graph of any network."
        raise PhmrunError(f"CTranslate2 knows Transformers, not {type(network).__name__}", hint=hint)
    specs, kinds = library().specs.transformer_spec, library().specs.Activation
    activations = {"relu": kinds.RELU, "swish": kinds.SWISH, "gated-gelu": kinds.GELUTanh}
    with torch.no_grad():
        plain = with_tables(folded(network))
        encoder_layers = cast(list[EncoderLayer], list(plain.encoder))
        decoder_layers = cast(list[DecoderLayer], list(plain.decoder))
        first = encoder_layers[0].attention
        attention = cast(MultiheadAttention, first.block)
        activation = cast(FeedForward, encoder_layers[0].feedforward.block).activation
        head_width = attention.inner_dim // attention.num_heads
        options = {
            "pre_norm": first.pre,
            "rms_norm": isinstance(first.norm, nn.RMSNorm),
            "relative_attention_bias": plain.encoder_positions is not None,
            "activation": activations[activation],
            "ffn_glu": activation in GATED,
            "head_dim": head_width if attention.inner_dim != plain.width else None,
        }
        heads = attention.num_heads
        encoder = specs.TransformerEncoderSpec(len(encoder_layers), heads, **options)
        decoder = specs.TransformerDecoderSpec(len(decoder_layers), heads, **options)
        encoder.embeddings[0].weight = _array(cast(nn.Embedding, plain.source_embedding).weight)
        decoder.embeddings.weight = _array(cast(nn.Embedding, plain.target_embedding).weight)
        for spec, norm in ((encoder, plain.encoder_norm), (decoder, plain.decoder_norm)):
            if first.pre:
                _set_norm(spec.layer_norm, norm)
            if plain.positions is not None:
                spec.position_encodings.encodings = _array(plain.positions(POSITIONS))
        for spec, encoder_layer in zip(encoder.layer, encoder_layers, strict=True):
            _set_self_attention(spec.self_attention, encoder_layer.attention, plain.encoder_positions)
            _set_feedforward(spec.ffn, encoder_layer.feedforward)
        for spec, decoder_layer in zip(decoder.layer, decoder_layers, strict=True):
            _set_self_attention(spec.self_attention, decoder_layer.attention, plain.decoder_positions)
            _set_cross_attention(spec.attention, decoder_layer.cross)
            _set_feedforward(spec.ffn, decoder_layer.feedforward)
        output = plain.output  # a sequence of maps without biases in between is replaced by its product
        maps = cast(list[nn.Linear], list(output) if isinstance(output, nn.Sequential) else [output])
        product = maps[0].weight
        for linear in maps[1:]:
            product = linear.weight @ product
        _set_map(decoder.projection, plain_linear(product, maps[-1].bias))
    specification = specs.TransformerSpec(encoder, decoder)
    specification.config.layer_norm_epsilon = cast(nn.LayerNorm, first.norm).eps
    specification.config.add_source_eos = True
    return specification


def longest_line(network: EncoderDecoder) -> int | None:
    """Return the largest number of tokens of a source or an output, end token included.

    It is that of the table of positions; None without one.
    """
    return None if network.positions is None else POSITIONS


def _array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor as a contiguous NumPy array in single precision."""
    return cast(np.ndarray[Any, Any], tensor.detach().cpu().to(torch.float32).contiguous().numpy())


def _set_map(spec: Any, linear: Any) -> None:
    """Set weight and bias of a linear map in a specification.

    Without a bias, only the weight is set.
    """
    spec.weight = _array(linear.weight)
    if linear.bias is not None:
        spec.bias = _array(linear.bias)


def _set_norm(spec: Any, norm: nn.Module) -> None:
    """Set scale and, for a layer norm, shift of a norm in a specification."""
    spec.gamma = _array(cast(Tensor, norm.weight))
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _set_self_attention(spec: Any, sublayer: Sublayer, positions: RelativePositions | None) -> None:
    """Set the parts of self-attention in a specification.

    They are norm, joint map of queries, keys and values, output map, and relative positions (if any).
    """
    attention = cast(MultiheadAttention, sublayer.block)
    _set_norm(spec.layer_norm, sublayer.norm)
    _set_map(spec.linear[0], joined(cast(list[nn.Linear], list(attention.project))))
    _set_map(spec.linear[1], attention.output)
    if positions is not None:
        spec.queries_scale = np.float32(1 / math.sqrt(attention.inner_dim // attention.num_heads))
        spec.relative_attention_bias = _array(positions.table)
        spec.relative_attention_max_distance = np.dtype("int32").type(positions.furthest)


def _set_cross_attention(spec: Any, sublayer: Sublayer) -> None:
    """Set the parts of attention to the source in a specification.

    They are norm, map of queries, joint map of keys and values, and output map.
    """
    attention = cast(MultiheadAttention, sublayer.block)
    _set_norm(spec.layer_norm, sublayer.norm)
    joint = joined(cast(list[nn.Linear], list(attention.project)))
    for linear, begin, end in ((spec.linear[0], 0, 1), (spec.linear[1], 1, 3)):
        rows = slice(begin * attention.inner_dim, end * attention.inner_dim)
        _set_map(linear, plain_linear(joint.weight[rows], None if joint.bias is None else joint.bias[rows]))
    _set_map(spec.linear[2], attention.output)


def _set_feedforward(spec: Any, sublayer: Sublayer) -> None:
    """Set norm and maps of a feed-forward block in a specification.

    The gate's map is set only if the block has one.
    """
    feedforward = cast(FeedForward, sublayer.block)
    _set_norm(spec.layer_norm, sublayer.norm)
    _set_map(spec.linear_0, feedforward.expand)
    if feedforward.gate is not None:
        _set_map(spec.linear_0_noact, feedforward.gate)
    _set_map(spec.linear_1, feedforward.contract)
