"""The parser as an export graph: words, tags and characters in, the scores of all arcs and labels out."""

import torch
from torch import Tensor, nn

from phmrun.export.graph import LONGEST, MOST, UNROLLED, ExportGraph
from phmrun.layers import Embedding, folded
from phmrun.tasks.parse.biaffine_parser import BiaffineParser
from phmrun.text.vocabulary import EOS, PAD


class ArcsAndLabels(nn.Module):
    """A biaffine parser as a function of what :meth:`BiaffineParser.forward` reads.

    Args:
        network: The parser.
    """

    def __init__(self, network: BiaffineParser) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of arcs ``[batch, dependents, heads]``, and of their labels ``[batch, labels, dependents, heads]``."""
        scores = self.network(*inputs)
        return scores.arcs, self.network.label_classifier(scores.dependents, scores.heads)


def parser_graph(network: BiaffineParser) -> ExportGraph:
    """Words, tags and characters to the scores of all arcs and of their labels."""
    plain = folded(network)
    sentence, spelling = ("batch", "length"), ("spellings",)
    return ExportGraph(
        plain,
        ArcsAndLabels(plain).eval(),
        ArcsAndLabels(network).eval(),
        inputs={
            "words": sentence,
            "tags": sentence,
            "characters": (*spelling, "longest"),
            "character_counts": spelling,
            "spellings": sentence,
            "lengths": ("batch",),
        },
        outputs=["arcs", "labels"],
        largest={"batch": MOST, "length": LONGEST, "spellings": MOST * LONGEST, "longest": LONGEST},
        examples=[_parsed(network, *sizes) for sizes in ((2, 7, 5), (1, 2, 1), (3, 21, 12))],
        untraceable=UNROLLED,
    )


def _parsed(network: BiaffineParser, batch: int, length: int, longest: int) -> tuple[Tensor, ...]:
    """What a parser reads: sentences of up to ``length`` words of up to ``longest`` characters."""
    generator = torch.Generator().manual_seed(length)

    def numbers(table: Embedding, *shape: int) -> Tensor:
        return torch.randint(EOS, table.num_embeddings, shape, generator=generator)

    counts = torch.randint(1, longest + 1, (batch * length,), generator=generator).sort(descending=True).values
    counts[0] = longest
    characters = numbers(network.letters, batch * length, longest)
    characters[torch.arange(longest) >= counts.unsqueeze(1)] = PAD
    spellings = torch.randint(batch * length, (batch, length), generator=generator)
    lengths = torch.tensor([length, *(length // 2 + 1 for _ in range(batch - 1))])
    words, tags = numbers(network.embedding, batch, length), numbers(network.tags, batch, length)
    return words, tags, characters, counts, spellings, lengths
