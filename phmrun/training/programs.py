"""Each kind of network as a :class:`~phmrun.training.program.Program`: what goes in, what comes out, how it is checked.

Padding is masked always, so that nothing in a graph depends on what the batch holds.
"""

from typing import cast

import torch
from torch import Tensor, nn

from phmrun.layers import LSTM, Embedding, folded
from phmrun.layers.inference import table_of
from phmrun.models.biaffine_parser import BiaffineParser
from phmrun.models.encoder_classifier import EncoderClassifier
from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.models.lstm_language_model import LSTMLanguageModel
from phmrun.models.reading import LanguageModel
from phmrun.models.sentences import Sentences
from phmrun.models.transformer import Transformer, with_tables
from phmrun.models.transformer_xl import TransformerXL
from phmrun.text.vocabulary import BOS, EOS, PAD
from phmrun.training.program import Program

LONGEST = 512
"""Most tokens of an input of an exported program: the length of its position table."""
MOST = 4096
"""Largest batch of an exported program."""
UNROLLED = "its LSTMs read to the end of each sentence, and a graph of them has a part for every step"
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


class ScoresOfClasses(nn.Module):
    """A classifier as a function of the tokens of its sentences, each ended by the end token.

    Args:
        network: The network.
    """

    def __init__(self, network: EncoderClassifier | LSTMClassifier) -> None:
        super().__init__()
        self.network = network

    def forward(self, *tokens: Tensor) -> Tensor:
        """``[batch, length]`` of each sentence ``-> [batch, classes]``."""
        inside = [part.ne(PAD) for part in tokens]
        parts = zip(tokens, inside, strict=True)
        scores: Tensor = self.network(*(Sentences(part, seen.sum(1), seen[:, None, None, :]) for part, seen in parts))
        return scores


def classification_program(network: EncoderClassifier | LSTMClassifier) -> Program:
    """Tokens of one sentence or two to a score for each class."""
    plain = folded(network)
    plain.embedding = table_of(plain.embedding)
    sentences = network.sentences if isinstance(network, LSTMClassifier) else 1
    vocabulary = plain.embedding.num_embeddings
    generator = torch.Generator().manual_seed(1)
    examples = []
    for batch, length in ((2, 7), (1, 1), (3, 21)):
        tokens = [random_tokens(generator, vocabulary, batch, length + number) for number in range(sentences)]
        for part in tokens:
            part[-1, length // 2 + 1 :] = PAD
        examples.append(tuple(tokens))
    names = ["tokens"] if sentences == 1 else ["first", "second"]
    return Program(
        plain,
        ScoresOfClasses(plain).eval(),
        ScoresOfClasses(network).eval(),
        inputs={name: ("batch", f"{name}_length") for name in names},
        outputs=["scores"],
        largest={"batch": MOST, **{f"{name}_length": LONGEST for name in names}},
        examples=examples,
        facts={"pad": str(PAD), "eos": str(EOS)},
        untraceable=UNROLLED if isinstance(network, LSTMClassifier) else "",
    )


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


def language_program(network: LSTMLanguageModel | TransformerXL) -> Program:
    """Words to the logarithms of the next words' probabilities: of a whole text, or of one word where LSTMs read it."""
    if isinstance(network, TransformerXL):
        return _of_a_text(network)
    return _of_a_word(network)


def _of_a_text(network: TransformerXL) -> Program:
    plain = folded(network)
    plain.embedding = table_of(plain.embedding)  # type: ignore[assignment]
    plain.memory = LONGEST  # what is kept for the text after this one is not asked for
    generator = torch.Generator().manual_seed(1)
    sizes = ((2, 7), (1, 1), (3, 21))
    return Program(
        plain,
        NextWord(plain).eval(),
        NextWord(network).eval(),
        inputs={"words": ("batch", "length")},
        outputs=["log_probabilities"],
        largest={"batch": MOST, "length": LONGEST},
        examples=[(torch.randint(network.output.n_classes, size, generator=generator),) for size in sizes],
    )


def _of_a_word(network: LSTMLanguageModel) -> Program:
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
    return Program(
        plain,
        NextWordAndState(plain).eval(),
        NextWordAndState(network).eval(),
        inputs={"word": ("batch",), **{name: ("batch", size) for name, size in sizes.items()}},
        outputs=["log_probabilities", *(f"{name}_after" for name in sizes)],
        largest={"batch": MOST},
        examples=examples,
    )


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


def parsing_program(network: BiaffineParser) -> Program:
    """Words, tags and letters to the scores of all arcs and of their labels."""
    plain = folded(network)
    sentence, spelling = ("batch", "length"), ("spellings",)
    return Program(
        plain,
        ArcsAndLabels(plain).eval(),
        ArcsAndLabels(network).eval(),
        inputs={
            "words": sentence,
            "tags": sentence,
            "letters": (*spelling, "longest"),
            "letter_counts": spelling,
            "spellings": sentence,
            "lengths": ("batch",),
        },
        outputs=["arcs", "labels"],
        largest={"batch": MOST, "length": LONGEST, "spellings": MOST * LONGEST, "longest": LONGEST},
        examples=[_parsed(network, *sizes) for sizes in ((2, 7, 5), (1, 2, 1), (3, 21, 12))],
        untraceable=UNROLLED,
    )


def _parsed(network: BiaffineParser, batch: int, length: int, longest: int) -> tuple[Tensor, ...]:
    """What a parser reads: sentences of up to ``length`` words of up to ``longest`` letters."""
    generator = torch.Generator().manual_seed(length)

    def numbers(table: Embedding, *shape: int) -> Tensor:
        return torch.randint(EOS, table.num_embeddings, shape, generator=generator)

    counts = torch.randint(1, longest + 1, (batch * length,), generator=generator).sort(descending=True).values
    counts[0] = longest
    letters = numbers(network.letters, batch * length, longest)
    letters[torch.arange(longest) >= counts.unsqueeze(1)] = PAD
    spellings = torch.randint(batch * length, (batch, length), generator=generator)
    lengths = torch.tensor([length, *(length // 2 + 1 for _ in range(batch - 1))])
    words, tags = numbers(network.embedding, batch, length), numbers(network.tags, batch, length)
    return words, tags, letters, counts, spellings, lengths


def random_tokens(generator: torch.Generator, vocabulary: int, batch: int, length: int) -> Tensor:
    """Tokens that are not special, ``[batch, length]``."""
    return torch.randint(EOS + 1, vocabulary, (batch, length), generator=generator)
