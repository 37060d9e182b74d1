"""A classifier of sentences as an export graph: tokens in, a score for each class out.

Padding is masked always, so that nothing in the graph depends on what the batch holds.
"""

import torch
from torch import Tensor, nn

from phmrun.export.graph import LONGEST, MOST, UNROLLED, ExportGraph, random_tokens
from phmrun.layers import LSTM, folded
from phmrun.layers.inference import table_of
from phmrun.models.sentences import Sentences
from phmrun.text.vocabulary import EOS, PAD


class ScoresOfClasses(nn.Module):
    """A classifier as a function of the tokens of its sentences, each ended by the end token.

    Args:
        network: The network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *tokens: Tensor) -> Tensor:
        """``[batch, length]`` of each sentence ``-> [batch, classes]``."""
        inside = [part.ne(PAD) for part in tokens]
        parts = zip(tokens, inside, strict=True)
        scores: Tensor = self.network(*(Sentences(part, seen.sum(1), seen[:, None, None, :]) for part, seen in parts))
        return scores


def classification_graph(network: nn.Module, sentences: int = 1) -> ExportGraph:
    """Tokens of one sentence or two to a score for each class.

    Args:
        network: Takes :class:`Sentences`, and has an ``embedding``.
        sentences: Sentences of an item.
    """
    plain = folded(network)
    plain.embedding = table_of(plain.get_submodule("embedding"))
    vocabulary = plain.embedding.num_embeddings
    generator = torch.Generator().manual_seed(1)
    examples = []
    for batch, length in ((2, 7), (1, 1), (3, 21)):
        tokens = [random_tokens(generator, vocabulary, batch, length + number) for number in range(sentences)]
        for part in tokens:
            part[-1, length // 2 + 1 :] = PAD
        examples.append(tuple(tokens))
    names = ["tokens"] if sentences == 1 else ["first", "second"]
    return ExportGraph(
        plain,
        ScoresOfClasses(plain).eval(),
        ScoresOfClasses(network).eval(),
        inputs={name: ("batch", f"{name}_length") for name in names},
        outputs=["scores"],
        largest={"batch": MOST, **{f"{name}_length": LONGEST for name in names}},
        examples=examples,
        facts={"pad": str(PAD), "eos": str(EOS)},
        untraceable=UNROLLED if any(isinstance(part, LSTM) for part in network.modules()) else "",
    )
