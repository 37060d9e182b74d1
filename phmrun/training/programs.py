"""Each kind of network as a :class:`~phmrun.training.program.Program`: what goes in, what comes out, how it is checked.

Padding is masked always, so that nothing in a graph depends on what the batch holds.
"""

from typing import cast

import torch
from torch import Tensor, nn

from phmrun.layers import folded
from phmrun.models.transformer import Transformer, with_tables
from phmrun.text.vocabulary import BOS, EOS, PAD
from phmrun.training.program import Program

LONGEST = 512
"""Most tokens of an input of an exported program: the length of its position table."""
MOST = 4096
"""Largest batch of an exported program."""
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


def translation_program(network: Transformer) -> Program:
    """Tokens of both sides to the logits of the next target tokens."""
    plain = with_tables(folded(network))
    sizes = [cast(nn.Embedding, table).num_embeddings for table in (plain.source_embedding, plain.target_embedding)]
    generator = torch.Generator().manual_seed(1)
    examples = []
    for batch, length, target_length in ((2, 7, 5), (1, 5, 1), (3, 17, 9), (2, 8, 21)):
        source = random_tokens(generator, sizes[0], batch, length)
        source[-1, length // 2 + 1 :] = PAD
        examples.append((source, random_tokens(generator, sizes[1], batch, target_length)))
    return Program(
        plain,
        NextTargetToken(plain).eval(),
        NextTargetToken(network).eval(),
        inputs={"source": ("batch", "source_length"), "target": ("batch", "target_length")},
        outputs=["logits"],
        largest={"batch": MOST, "source_length": LONGEST, "target_length": LONGEST},
        examples=examples,
        facts=TOKENS,
    )


def random_tokens(generator: torch.Generator, vocabulary: int, batch: int, length: int) -> Tensor:
    """Tokens that are not special, ``[batch, length]``."""
    return torch.randint(EOS + 1, vocabulary, (batch, length), generator=generator)
