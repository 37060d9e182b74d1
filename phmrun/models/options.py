"""Options of the shared networks, as ``model`` sections of a configuration.

Imports no torch.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from phmrun.config.names import Registered
from phmrun.config.sections import MOST_LAYERS, FilePath, ModelConfig
from phmrun.registry import networks
from phmrun.section import Unhashed

_BASE: dict[str, Any] = {"width": 512, "feedforward": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6}
_FAIRSEQ: dict[str, Any] = {
    **_BASE,
    "norm": "post",
    "normalization": "layer",
    "positions": "sinusoidal",
    "attention_maps": "separate",
    "bias": True,
    "feedforward_bias": True,
    "tie": "all",
}
_DELIGHT: dict[str, Any] = {
    "upsample": 1,
    "contract_n": None,
    "activation": "swish",
    "normalization": "layer",
    "attention_maps": "joint",
    "bias": True,
    "feedforward_bias": True,
}
"""Transformer options that have a fixed value in DeLighT."""


class TransformerOptions(ModelConfig):
    """Options of the encoder–decoder Transformer and of DeLighT."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "transformer": {},
        "delight": {**_DELIGHT, "norm": "post", "positions": "sinusoidal", "encoder_layers": 8, "decoder_layers": 8},
        "tiny": {"width": 128, "feedforward": 512, "heads": 4, "encoder_layers": 2, "decoder_layers": 2},
        "small": {"width": 256, "feedforward": 1024, "heads": 4, "encoder_layers": 3, "decoder_layers": 3},
        "base": {**_BASE, "attention_dropout": 0.1, "activation_dropout": 0.1},
        "t5-small": {
            **_BASE,
            "norm": "pre",
            "normalization": "rms",
            "positions": "relative",
            "attention_maps": "separate",
            "bias": False,
            "feedforward_bias": False,
            "tie": "all",
        },
        "fairseq-base": _FAIRSEQ,
        "fairseq-iwslt": {**_FAIRSEQ, "feedforward": 1024, "heads": 4},
    }

    network: Annotated[str, Registered(networks("sequence_to_sequence"))] = "transformer"
    """delight: the deep and light-weight Transformer (Mehta et al. 2021), swish and post-norm with biases, unless norm
    says otherwise, in 8 + 8 blocks.
    """
    preset: Annotated[Literal["tiny", "small", "base", "t5-small", "fairseq-base", "fairseq-iwslt"], Unhashed()] = (
        "tiny"
    )
    """Sets width, feedforward, heads and layers (base, the papers' model, also two dropouts; t5-small and fairseq's
    also norms, positions, biases and tying); keys given beside it override it.
    """
    width: int = Field(128, ge=2)
    """Width of the hidden states and embeddings."""
    feedforward: int = Field(512, ge=1)
    """Transformer: width of the feed-forward networks."""
    heads: int = Field(4, ge=1)
    """Transformer: attention heads; a divisor of the width."""
    head_width: int | None = Field(None, ge=1)
    """Transformer: width of a head's queries, keys and values; null: width / heads."""
    encoder_layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Blocks of the encoder."""
    decoder_layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Blocks of the decoder."""
    norm: Literal["pre", "post"] = "pre"
    """Layer normalization before or after each sublayer."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of residual and embedding units dropped."""
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of attention weights dropped."""
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of feed-forward units dropped."""
    transformation_dropout: float = Field(0.0, ge=0, lt=1)
    """DeLighT: share of units dropped after each map in front of attention."""
    min_depth: int = Field(4, ge=2, le=MOST_LAYERS)
    """DeLighT: group linear maps in front of the first block's attention."""
    max_depth: int = Field(8, ge=2, le=MOST_LAYERS)
    """DeLighT: group linear maps in front of the last block's attention."""
    width_multiplier: float = Field(2.0, gt=0)
    """DeLighT: width of these maps in the middle, relative to `width`, in the first block."""
    word_width: int = Field(128, ge=1)
    """DeLighT: width of a word's own vector."""
    attention_maps: Literal["joint", "separate"] = "joint"
    """Queries, keys and values as one weight matrix or as three."""
    bias: bool = False
    """Biases in the attention's maps; tensor2tensor's have none."""
    feedforward_bias: bool = True
    """Biases in the feed-forward networks."""
    output_bias: bool = False
    """A bias in the output layer."""
    upsample: int = Field(1, ge=1)
    """Factor on the inner widths: of queries, keys and values, and of the feed-forward networks."""
    normalization: Literal["layer", "rms"] = "layer"
    """Normalization by mean and variance, or by the root mean square alone (T5)."""
    positions: Literal["sinusoidal", "sinusoidal-vaswani", "relative"] = "sinusoidal"
    """Vectors added to the embeddings (tensor2tensor's or the paper's), or scores by distance (T5)."""
    activation: Literal["relu", "swish", "gated-gelu"] = "relu"
    """Activation of the feed-forward networks; gated-gelu: GELU times a second map (T5 1.1, Flan, mT5)."""
    contract_n: int | None = Field(None, ge=1)
    """Order n of the second map of each feed-forward network, if it differs from the layer's; 16 is the slip in Demir
    and Barutçu's PHM+ at n = 2, 4 and 8.
    """
    start: Literal["usual", "glorot"] = "usual"
    """Initialization: usual for each layer, or all matrices and factors from Glorot's distribution, except updates
    (`added`), which start at zero.
    """
    tie: Literal["all", "decoder", "embeddings", "none"] = "all"
    """Shared: both embeddings and the output layer; the decoder's two; the two embeddings; nothing."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that the options fit the network.

        Raises:
            ValueError: For the Transformer, the heads do not divide the width, and ``head_width`` is not set. For
                DeLighT, an option of the Transformer is set, or ``min_depth`` is more than ``max_depth``.
        """
        if self.network == "transformer" and self.head_width is None and self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide the width {self.width}")
        if self.network != "delight":
            return self
        for key, value in _DELIGHT.items():
            if getattr(self, key) != value:
                raise ValueError(f"{key}={getattr(self, key)} is of the Transformer: DeLighT's is {value}")
        if self.positions == "relative" or self.tie == "embeddings" or self.head_width:
            raise ValueError("positions=relative, tie=embeddings and head_width are of the Transformer, not of DeLighT")
        if self.min_depth > self.max_depth:
            raise ValueError(f"min_depth={self.min_depth} is more than max_depth={self.max_depth}")
        return self


_FRESH = ("family", "width", "layers", "feedforward", "inner", "heads", "tie", "dropout")
"""Options of a network of transformers with fresh weights."""


class HuggingFaceOptions(ModelConfig):
    """Options of a network of transformers."""

    versions: ClassVar[Mapping[str, int]] = {"family=gpt2": 2}  # dropout of attention weights is `dropout`, too

    path: FilePath = None
    """hf: folder of a model (config.json, model.safetensors, tokenizer.json, or a GGUF file), whose weights are read.
    Its contents are part of the run id.
    """
    only: str = ""
    """hf: the blocks' maps that get the layer's structure, by the ends of their names: q_proj,v_proj; empty: all."""

    path_dropout: float | None = Field(None, ge=0, lt=1)
    """hf with `path`: share of units and attention weights dropped; null: the folder's."""

    @model_validator(mode="after")
    def _read_by_hf(self) -> Self:
        """Check that a folder is read by the network that can, and beside no options of fresh weights.

        Raises:
            ValueError: ``path`` is set for another network or with such options, or ``path_dropout`` without ``path``.
        """
        if self.path is None and self.path_dropout is not None:
            raise ValueError("path_dropout needs path; with fresh weights: dropout")
        if self.path is not None and getattr(self, "network", "hf") != "hf":
            raise ValueError("path needs network=hf, which reads the folder of a model")
        usual = {**self.defaults(), **self.presets.get("hf", {})}
        for key in _FRESH if self.path is not None else ():
            if (value := getattr(self, key, None)) != usual.get(key):
                raise ValueError(f"{key}={value} is of fresh weights: path has its own; for dropout, set path_dropout")
        return self


class LSTMClassifierOptions(ModelConfig):
    """Options of the LSTM classifier."""

    width: int = Field(300, ge=1)
    """Size of the LSTM's input vectors."""
    hidden: int = Field(300, ge=1)
    """Size of the LSTM's hidden vectors."""
    layers: int = Field(1, ge=1, le=MOST_LAYERS)
    """Layers of the LSTM."""
    bidirectional: bool = False
    """Add a second LSTM that reads backwards."""
    gate_maps: Literal["gate", "stacked"] = "gate"
    """The LSTM's maps: one per gate for each of input and hidden vector, or one for all gates."""
    cell: Literal["standard", "linear-output"] = "standard"
    """The LSTM's cell: h = σ(o) ∘ tanh(c), or h = o ∘ c, as Zhang et al. 2021 print theirs; slow."""
    pooling: Literal["mean", "max", "last", "max-mean"] = "max-mean"
    """Pooling of the LSTM's outputs over a sentence; max-mean concatenates both."""
    matching: Literal["concat", "full"] = "concat"
    """What the MLP gets of the sentences' vectors u and v: both side by side (the papers), or |u - v| and u * v with
    them, which learns more from few pairs.
    """
    mlp: int = Field(300, ge=1)
    """Size of the MLP's hidden vectors."""
    mlp_layers: int = Field(2, ge=0, le=MOST_LAYERS)
    """Hidden layers of the MLP."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Share of the inputs of LSTM and MLP dropped."""
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of words whose whole vector is dropped."""
    train_embedding: bool | None = None
    """Train the word vectors; null: yes, unless pretrained ones are given."""
