"""Random networks that behave as trained ones in what search depends on."""

from typing import cast

import torch
from built_networks import built
from torch import nn

from phmrun.layers import Embedding
from phmrun.models.transformer import Transformer
from phmrun.text.vocabulary import BOS, EOS, PAD


def network(size: int, **options: object) -> Transformer:
    """A random Transformer whose biases and norms are not those of a new one, and which ends its outputs."""
    torch.manual_seed(0)
    settings = {"width": 16, "feedforward": 24, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, **options}
    created = built(Transformer, size, size, **settings).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in created.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        bias = getattr(created.output, "bias", None)
        if isinstance(bias, nn.Parameter):
            bias[[PAD, BOS]] = -30.0  # what a trained network thinks of them
            bias[EOS] += 1.5
            cast(Embedding, created.target_embedding).structure.materialize().mul_(3.0)
    return created
