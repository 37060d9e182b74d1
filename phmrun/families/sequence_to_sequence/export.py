"""The Transformer as an export graph: tokens of both sides in, logits of the next target tokens out."""

from typing import cast

import torch
from torch import Tensor, nn

from phmrun.export.graph import LONGEST, MOST, ExportGraph, random_tokens
from phmrun.layers import folded
from phmrun.models.transformer import Transformer, with_tables
from phmrun.text.vocabulary import BOS, EOS, PAD

TOKENS = {"pad": str(PAD), "bos": str(BOS), "eos": str(EOS)}


class NextTargetToken(nn.Module):
    """A Transformer as a function of two token tensors, the target beginning with the beginning token."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = network

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """``[batch, source]``, ``[batch, target] -> [batch, target, vocabulary]``: logits of the next tokens."""
        mask = source.ne(PAD)[:, None, None, :]
        logits: Tensor = self.network.output(self.network(source, mask, target))
        return logits


def translation_graph(network: Transformer) -> ExportGraph:
    """Tokens of both sides to the logits of the next target tokens."""
    plain = with_tables(folded(network))
    sizes = [cast(nn.Embedding, table).num_embeddings for table in (plain.source_embedding, plain.target_embedding)]
    generator = torch.Generator().manual_seed(1)
    examples = []
    for batch, length, target_length in ((2, 7, 5), (1, 5, 1), (3, 17, 9), (2, 8, 21)):
        source = random_tokens(generator, sizes[0], batch, length)
        source[-1, length // 2 + 1 :] = PAD
        examples.append((source, random_tokens(generator, sizes[1], batch, target_length)))
    return ExportGraph(
        plain,
        NextTargetToken(plain).eval(),
        NextTargetToken(network).eval(),
        inputs={"source": ("batch", "source_length"), "target": ("batch", "target_length")},
        outputs=["logits"],
        largest={"batch": MOST, "source_length": LONGEST, "target_length": LONGEST},
        examples=examples,
        facts=TOKENS,
    )
