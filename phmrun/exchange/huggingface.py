"""Conversion of Hugging Face T5 and Marian checkpoints to our Transformer: config, vocabulary and weights.

Special tokens have other ids than in phmrun, so embedding rows are reordered. The beginning-of-sentence token gets a
copy of the row that their decoders start with; a bias of ``RULED_OUT`` keeps it from being generated.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.escaping import one_line
from phmrun.exchange.checkpoint import Checkpoint
from phmrun.files import read_object
from phmrun.layers import FeedForward, Linear, MultiheadAttention
from phmrun.layers.structures.dense import Dense
from phmrun.models.transformer import EncoderLayer, Sublayer, Transformer
from phmrun.text.subwords import PieceVocabulary, processor_of
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import BOS, SPECIALS

_LOG = logging.getLogger(__name__)
GENERATION = "generation_config.json"
T5_TYPES = ("t5", "mt5")
T5_TABLES = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""Alternative names of T5's shared embedding table."""
SHARED = {"attention_maps": "separate", "output_bias": True, "tie": "all"}  # keys of the model section
T5_ACTIVATIONS = ("relu", "gated-gelu")  # values of `feed_forward_proj`; ours have the same names
DECODING = {"penalty": "power", "alpha": 1.0}
MOST_BEAMS = 100  # larger beams and exponents of a checkpoint's search are ignored
NO_EFFECT = {
    **{"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1, "min_length": 0},
    **{"num_beam_groups": 1, "diversity_penalty": 0, "do_sample": False},
    **dict.fromkeys(("forced_bos_token_id", "min_new_tokens", "suppress_tokens", "begin_suppress_tokens")),
}
"""Settings of transformers' search that phmrun's lacks, with the value that has no effect; None has none, either."""
RULED_OUT = -1e9  # output bias of tokens that are never generated


@dataclass(frozen=True)
class Imported:
    """Description of a checkpoint as phmrun settings."""

    model: Mapping[str, Any]  # keys of the model section
    decoding: Mapping[str, Any]  # keys of the decoding section
    vocabularies: Vocabularies
    order: Sequence[int]  # token id in the checkpoint, by phmrun's token id


def describe(checkpoint: Checkpoint) -> Imported:
    """Translate a checkpoint's config and vocabulary into phmrun settings.

    The types are t5, mt5 and marian.

    Raises:
        PhmrunError: (exit 3) The model type is unknown, or it uses a feature that our Transformer lacks.
        PhmrunError: (exit 3) The vocabulary is missing or damaged. Marian's has another size than ``config.json`` says;
            T5's is filled up or cut to that size, but its table must have it.
    """
    kind = checkpoint.config.get("model_type")
    if kind in T5_TYPES:
        return _t5(checkpoint)
    if kind == "marian":
        return _marian(checkpoint)
    what, where = f"the model type {kind!r} cannot be imported", str(checkpoint.directory / "config.json")
    raise PhmrunError(what, where=where, valid=(*T5_TYPES, "marian"), code=ExitCode.DATA)


@torch.no_grad()
def load_weights(checkpoint: Checkpoint, imported: Imported, network: Transformer) -> None:
    """Copy the weights of a checkpoint into ``network``, in place.

    The tables are reordered by ``imported.order``.

    Raises:
        PhmrunError: (exit 3) A tensor is missing or has another shape.
    """
    load = _load_t5 if checkpoint.config["model_type"] in T5_TYPES else _load_marian
    load(checkpoint, torch.tensor(imported.order), network)


def _t5(checkpoint: Checkpoint) -> Imported:
    """Translate a T5 checkpoint's config and SentencePiece model into phmrun settings.

    Pieces beyond the SentencePiece model's are named ``<extra N>``. Pieces beyond ``vocab_size`` are dropped. Layers
    are pre-norm with RMS and relative positions. Both sides share one vocabulary.

    Raises:
        PhmrunError: (exit 3) A setting is not supported, or the vocabulary is damaged.
    """
    config = checkpoint.config
    width, heads, head = (_size(checkpoint, key) for key in ("d_model", "num_heads", "d_kv"))
    buckets = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
    for key, value in {**buckets, "layer_norm_epsilon": 1e-6}.items():
        _refuse(checkpoint, key, value, (value,))
    _refuse(checkpoint, "feed_forward_proj", "relu", T5_ACTIVATIONS)
    _refuse(checkpoint, "tie_word_embeddings", True, (True, False))
    decoder_layers = "num_decoder_layers" if config.get("num_decoder_layers") else "num_layers"
    sizes = {"feedforward": "d_ff", "encoder_layers": "num_layers", "decoder_layers": decoder_layers}
    model = {
        **SHARED,
        **{ours: _size(checkpoint, theirs) for ours, theirs in sizes.items()},
        **{"width": width, "heads": heads, "dropout": _rate(checkpoint, "dropout_rate")},
        **({} if heads * head == width else {"head_width": head}),
        **{"activation": config.get("feed_forward_proj", "relu")},
        **({} if _is_scaled(checkpoint) else {"tie": "embeddings"}),
        **{"norm": "pre", "normalization": "rms", "positions": "relative", "bias": False, "feedforward_bias": False},
    }
    spiece = checkpoint.file("spiece.model")
    try:
        processor = processor_of(spiece)
        pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except ValueError as error:  # also of a piece that is no valid text
        raise _unlike(checkpoint, "its SentencePiece model is damaged") from error
    size = _size(checkpoint, "vocab_size")
    checkpoint.tensor(*T5_TABLES, shape=(size, width))  # checked before a list of so many names is made
    names = [*pieces, *(f"<extra {number}>" for number in range(len(pieces), size))][:size]
    vocabulary, order = _renumbered(checkpoint, spiece, names, _token(checkpoint, "unk_token_id", processor.unk_id()))
    return Imported(model, _search(checkpoint), Vocabularies(vocabulary, vocabulary), order)


def _is_scaled(checkpoint: Checkpoint) -> bool:
    """Return True if a T5 divides the input of its output map by √width.

    Transformers 4 does so if the output is tied. Transformers 5 writes every output as tied: T5 has a key of its own,
    and mT5 never divides.
    """
    config = checkpoint.config
    if config["model_type"] == "mt5" and not str(config.get("transformers_version", "4")).startswith(("3.", "4")):
        return False
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))


def _marian(checkpoint: Checkpoint) -> Imported:
    """Translate a Marian checkpoint's config and vocabulary files into phmrun settings.

    Layers are post-norm with sinusoidal positions. Sizes, activation and dropout are the config's; encoder and decoder
    must have the same heads and inner width. Both sides' vocabularies have the pieces of ``vocab.json`` and their own
    SentencePiece models.

    Raises:
        PhmrunError: (exit 3) A setting is not supported, or the vocabulary is damaged.
    """
    config = checkpoint.config
    _refuse(checkpoint, "activation_function", "gelu", ("swish", "relu"))
    for key in ("normalize_embedding", "normalize_before"):
        _refuse(checkpoint, key, False, (False,))
    _refuse(checkpoint, "scale_embedding", False, (True,))
    for key in ("share_encoder_decoder_embeddings", "tie_word_embeddings"):
        _refuse(checkpoint, key, True, (True,))
    for key in ("attention_heads", "ffn_dim"):
        if config.get(f"encoder_{key}") != config.get(f"decoder_{key}"):
            raise _unlike(checkpoint, f"encoder_{key} and decoder_{key} differ")
    sizes = {
        **{"width": "d_model", "feedforward": "encoder_ffn_dim", "heads": "encoder_attention_heads"},
        **{"encoder_layers": "encoder_layers", "decoder_layers": "decoder_layers"},
    }
    model = {
        **SHARED,
        **{ours: _size(checkpoint, theirs) for ours, theirs in sizes.items()},
        **{"activation": config["activation_function"], "dropout": _rate(checkpoint, "dropout")},
        **{"norm": "post", "normalization": "layer", "positions": "sinusoidal-vaswani"},
        **{"bias": True, "feedforward_bias": True},
    }
    try:
        numbers = parse_json(checkpoint.file("vocab.json"))
        names = [piece for piece, _ in sorted(numbers.items(), key=lambda item: int(item[1]))]
        unknown_token = int(numbers.get("<unk>", 1))
    except (ArithmeticError, ValueError, AttributeError, TypeError) as error:
        raise _unlike(checkpoint, f"vocab.json is not a list of pieces: {error}") from error
    if len(names) != _size(checkpoint, "vocab_size"):
        raise _unlike(checkpoint, f"vocab.json has {len(names)} pieces, config.json {config['vocab_size']}")
    # Two SentencePiece models share one list of pieces, so both sides have the order of the shared table.
    sides = []
    for name in ("source.spm", "target.spm"):
        side, order = _renumbered(checkpoint, checkpoint.file(name), names, unknown_token)
        sides.append(side)
    return Imported(model, _search(checkpoint), Vocabularies(*sides), order)


def _search(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return keys of the decoding section: penalty, alpha and perhaps beam.

    The penalty is "power". Beam (1 to 100) and alpha (0 to 100) come from ``generation_config.json`` if it has valid
    ones; otherwise alpha is 1 and beam missing. A warning names the settings that are not used.
    """
    search = dict(DECODING)
    settings = {"early_stopping": False, **read_object(checkpoint.directory / GENERATION)}
    beam, alpha = settings.get("num_beams"), settings.get("length_penalty")
    unused = [key for key, value in NO_EFFECT.items() if settings.get(key) not in (None, value)]
    if type(beam) is int and 1 <= beam <= MOST_BEAMS:
        search["beam"] = beam
        # Our beam search ends a sentence as theirs does with `early_stopping`.
        unused += ["early_stopping"] if beam > 1 and settings["early_stopping"] is not True else []
    if isinstance(alpha, int | float) and 0 <= alpha <= MOST_BEAMS:
        search["alpha"] = float(alpha)
    if unused:
        values = ", ".join(f"{key} {settings[key]}"[:60] for key in unused)
        _LOG.warning("%s: not used, so outputs may differ from transformers': %s", GENERATION, one_line(values))
    return search


def _renumbered(
    checkpoint: Checkpoint, model: bytes, names: Sequence[str], unknown_token: int
) -> tuple[PieceVocabulary, list[int]]:
    """Return a vocabulary with our special tokens first, and the checkpoint's ids.

    The list holds the checkpoint's token id of each entry. Other pieces keep their order. Without ids in the config,
    padding is 0, the start token is padding, and the end token is 1.

    Args:
        checkpoint: Source of the special tokens' ids.
        model: Content of the SentencePiece model.
        names: Pieces in the checkpoint's order.
        unknown_token: The checkpoint's id of the unknown token.

    Raises:
        PhmrunError: (exit 3) A special token's id is outside ``names``, or the SentencePiece model is damaged.
    """
    pad = _token(checkpoint, "pad_token_id", 0)
    start = _token(checkpoint, "decoder_start_token_id", pad)
    special = [pad, unknown_token, start, _token(checkpoint, "eos_token_id", 1)]
    if not all(0 <= number < len(names) for number in special):
        raise _unlike(checkpoint, "a special token is not in the vocabulary")
    others = [number for number in range(len(names)) if number not in special]
    try:
        return PieceVocabulary(model, [*SPECIALS, *(names[number] for number in others)]), [*special, *others]
    except ValueError as error:
        raise _unlike(checkpoint, "its SentencePiece model is damaged") from error


def _load_t5(checkpoint: Checkpoint, order: Tensor, network: Transformer) -> None:
    """Copy T5's weights into ``network``, in place, rescaled to our scales.

    The table is divided by √width, and query maps are multiplied by √(head width). An untied output table is copied
    unscaled.

    Raises:
        PhmrunError: (exit 3) A tensor is missing or has another shape.
    """
    width, heads = network.width, cast(MultiheadAttention, cast(EncoderLayer, network.encoder[0]).attention.block)
    table = checkpoint.tensor(*T5_TABLES, shape=(int(order.max()) + 1, width))
    # T5 divides the input of a tied output by √width and leaves embeddings unscaled; ours multiplies embeddings.
    _set_tables(network, table / math.sqrt(width), order, None)
    if not network.tied:  # as it is: T5 divides the input of a tied output only
        output = checkpoint.tensor("lm_head.weight", *T5_TABLES, shape=tuple(table.shape))
        cast(Dense, cast(Linear, network.output).structure).matrix.copy_(output[order])
    for kind, part, sublayer, number, place in _sublayers(network):
        prefix = f"{kind}.block.{number}.layer.{place}"
        norm = f"{prefix}.layer_norm"
        if part == "feedforward":
            gated = cast(FeedForward, sublayer.block).gate is not None
            places = [f"{prefix}.DenseReluDense.{name}" for name in (("wi_0", "wo", "wi_1") if gated else ("wi", "wo"))]
            _set_sublayer(checkpoint, sublayer, places, norm)
        else:
            attention = "SelfAttention" if part == "attention" else "EncDecAttention"
            places = [f"{prefix}.{attention}.{letter}" for letter in "qkvo"]
            _set_sublayer(checkpoint, sublayer, places, norm, math.sqrt(heads.inner_dim // heads.num_heads))
    for side, norm_of, positions in (
        ("encoder", network.encoder_norm, network.encoder_positions),
        ("decoder", network.decoder_norm, network.decoder_positions),
    ):
        _set_norm(checkpoint, norm_of, f"{side}.final_layer_norm")
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        if positions is not None:
            positions.table.copy_(checkpoint.tensor(bias, shape=tuple(positions.table.shape)))


def _load_marian(checkpoint: Checkpoint, order: Tensor, network: Transformer) -> None:
    """Copy Marian's weights into ``network``, in place.

    Nothing is rescaled; the output bias is ``final_logits_bias``.

    Raises:
        PhmrunError: (exit 3) A tensor is missing or has another shape.
    """
    places = ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
    size = (int(order.max()) + 1, network.width)
    table = checkpoint.tensor(*(f"model.{place}.weight" for place in places), "lm_head.weight", shape=size)
    bias = checkpoint.tensor("final_logits_bias", shape=(1, len(table)))[0]
    # Marian scales embeddings but not outputs; our network scales embeddings only, too.
    _set_tables(network, table, order, bias)
    for kind, part, sublayer, number, _ in _sublayers(network):
        prefix = f"model.{kind}.layers.{number}"
        if part == "feedforward":
            _set_sublayer(checkpoint, sublayer, [f"{prefix}.fc1", f"{prefix}.fc2"], f"{prefix}.final_layer_norm")
        else:
            attention = f"{prefix}.{'self_attn' if part == 'attention' else 'encoder_attn'}"
            maps = [f"{attention}.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj")]
            _set_sublayer(checkpoint, sublayer, maps, f"{attention}_layer_norm")


def _sublayers(network: Transformer) -> Iterator[tuple[str, str, Sublayer, int, int]]:
    """Yield (side, name, sublayer, layer number, position in the layer) for every sublayer.

    Sides are "encoder", then "decoder"; names are "attention", "cross" (decoder only) and "feedforward".
    """
    for kind, parts in (("encoder", ("attention", "feedforward")), ("decoder", ("attention", "cross", "feedforward"))):
        for number, layer in enumerate(getattr(network, kind)):
            for place, part in enumerate(parts):
                yield kind, part, getattr(layer, part), number, place


def _set_sublayer(
    checkpoint: Checkpoint, sublayer: Sublayer, places: Sequence[str], norm: str, scale: float = 1.0
) -> None:
    """Load the maps of a block and its norm, in place.

    ``places`` are their names in the checkpoint: those of query, key, value and output map, or of a feed-forward
    block's first and second map, and of its gate if it has one. ``scale`` multiplies weight and bias of the first map.
    """
    block: Any = sublayer.block
    maps = [block.expand, block.contract, block.gate] if hasattr(block, "expand") else [*block.project, block.output]
    for linear, place, factor in zip(maps, places, (scale, 1.0, 1.0, 1.0), strict=False):
        _set(checkpoint, linear, place, factor)
    _set_norm(checkpoint, sublayer.norm, norm)


def _set_tables(network: Transformer, table: Tensor, order: Tensor, bias: Tensor | None) -> None:
    """Load the shared table in our order, and the output bias, in place.

    A bias of None becomes 0. The bias of BOS is always ``RULED_OUT``. The source embedding's table is written, and
    thereby those tied to it.
    """
    cast(Dense, cast(Any, network.source_embedding).structure).matrix.copy_(table[order])
    output_bias = cast(nn.Parameter, network.output.bias)
    output_bias.copy_(torch.zeros(len(order)) if bias is None else bias[order])
    output_bias[BOS] = RULED_OUT


def _set(checkpoint: Checkpoint, module: nn.Module, name: str, scale: float = 1.0) -> None:
    """Load weight and bias of a linear map, times ``scale``, in place.

    The bias is read only if the module has one.
    """
    linear = cast(Linear, module)
    shape = (linear.out_features, linear.in_features)
    cast(Dense, linear.structure).matrix.copy_(scale * checkpoint.tensor(f"{name}.weight", shape=shape))
    if linear.bias is not None:
        linear.bias.copy_(scale * checkpoint.tensor(f"{name}.bias", shape=shape[:1]))


def _set_norm(checkpoint: Checkpoint, norm: nn.Module, name: str) -> None:
    """Load the weight of a norm in place, and the bias of a layer norm."""
    weight = cast(Tensor, norm.weight)
    weight.copy_(checkpoint.tensor(f"{name}.weight", shape=tuple(weight.shape)))
    if isinstance(norm, nn.LayerNorm):
        norm.bias.copy_(checkpoint.tensor(f"{name}.bias", shape=tuple(weight.shape)))


def _size(checkpoint: Checkpoint, key: str) -> int:
    """Return a positive integer of the checkpoint's config.

    Raises:
        PhmrunError: (exit 3) It is missing, no integer, or not from 1 to 2²⁴ − 1.
    """
    value = checkpoint.config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**24:
        raise _unlike(checkpoint, f"{key} is {value!r}, not a size")
    return value


def _rate(checkpoint: Checkpoint, key: str) -> float:
    """Return a dropout rate of the checkpoint's config.

    It is 0.1 if missing.

    Raises:
        PhmrunError: (exit 3) It is not a number of at least 0 and below 1.
    """
    value = checkpoint.config.get(key, 0.1)
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise _unlike(checkpoint, f"{key} is {value!r}, not a share")
    return float(value)


def _token(checkpoint: Checkpoint, key: str, otherwise: int) -> int:
    """Return a token id of the checkpoint's config.

    It is ``otherwise`` if the value is no integer.
    """
    value = checkpoint.config.get(key)
    return value if isinstance(value, int) else otherwise


def _refuse(checkpoint: Checkpoint, key: str, default: Any, supported: tuple[Any, ...]) -> None:
    """Check that a setting of the checkpoint has a supported value.

    A missing setting counts as ``default``.

    Raises:
        PhmrunError: (exit 3) The value is not among ``supported``.
    """
    value = checkpoint.config.get(key, default)
    if value not in supported:
        choices = " or ".join(map(repr, supported))
        raise _unlike(checkpoint, f"{key} is {value!r}; phmrun's Transformer supports {choices}")


def _unlike(checkpoint: Checkpoint, reason: str) -> PhmrunError:
    """Return the error (exit 3) for a checkpoint that cannot be imported."""
    return data_error(f"the checkpoint cannot be imported: {reason}", checkpoint.directory)
