"""Language models as export graphs: words in, the logarithms of the next words' probabilities out."""

from typing import cast

import torch
from torch import Tensor, nn

from phmrun.export.graph import LONGEST, MOST, ExportGraph
from phmrun.layers import LSTM, folded
from phmrun.layers.inference import table_of
from phmrun.tasks.lm.language_model import LanguageModel
from phmrun.tasks.lm.lstm import LSTMLanguageModel
from phmrun.tasks.lm.transformer_xl import TransformerXL


class NextWord(nn.Module):
    """A language model as a function of ``[batch, length]`` tokens, from the beginning of a text.

    Args:
        network: The network.
    """

    def __init__(self, network: LanguageModel) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor) -> Tensor:
        """Logarithms of the next words' probabilities, ``[batch, length, vocabulary]``."""
        return self.network.output.log_prob(self.network(tokens).outputs)


class NextWordAndState(nn.Module):
    """A language model of LSTMs as a function of one word, ``[batch]``, and of what it remembers of those before.

    Args:
        network: The network.
    """

    def __init__(self, network: LSTMLanguageModel) -> None:
        super().__init__()
        self.network = network

    def forward(self, word: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """``[batch, vocabulary]`` as :class:`NextWord`, and the state after the word."""
        reading = self.network(word.unsqueeze(1), state)
        return self.network.output.log_prob(reading.outputs[:, 0]), *reading.state


def language_model_graph(network: LSTMLanguageModel | TransformerXL) -> ExportGraph:
    """Words to the logarithms of the next words' probabilities: of a whole text, or of one word where LSTMs read it."""
    if isinstance(network, TransformerXL):
        return _of_a_text(network)
    return _of_a_word(network)


def _of_a_text(network: TransformerXL) -> ExportGraph:
    plain = folded(network)
    plain.embedding = table_of(plain.embedding)  # type: ignore[assignment]
    plain.memory = LONGEST  # what is kept for the text after this one is not asked for
    generator = torch.Generator().manual_seed(1)
    sizes = ((2, 7), (1, 1), (3, 21))
    return ExportGraph(
        plain,
        NextWord(plain).eval(),
        NextWord(network).eval(),
        inputs={"words": ("batch", "length")},
        outputs=["log_probabilities"],
        largest={"batch": MOST, "length": LONGEST},
        examples=[(torch.randint(network.output.n_classes, size, generator=generator),) for size in sizes],
    )


def _of_a_word(network: LSTMLanguageModel) -> ExportGraph:
    """A graph of an LSTM over a text would have as many parts as the text has words, so this is a single step.

    The state before the first word is zero.
    """
    plain = folded(network)
    plain.embedding = table_of(plain.embedding)  # type: ignore[assignment]
    sizes = {
        f"{kind}{number}": lstm.hidden_size
        for number, lstm in enumerate(cast(list[LSTM], network.context))
        for kind in "hc"
    }
    generator = torch.Generator().manual_seed(1)
    examples = [
        (
            torch.randint(network.output.n_classes, (batch,), generator=generator),
            *(torch.randn(batch, size, generator=generator) for size in sizes.values()),
        )
        for batch in (2, 1, 5)
    ]
    return ExportGraph(
        plain,
        NextWordAndState(plain).eval(),
        NextWordAndState(network).eval(),
        inputs={"word": ("batch",), **{name: ("batch", size) for name, size in sizes.items()}},
        outputs=["log_probabilities", *(f"{name}_after" for name in sizes)],
        largest={"batch": MOST},
        examples=examples,
    )
