"""Base class of predictors: trained models that answer to lines of text and are scored on a split."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from phmrun.metrics import Score
from phmrun.metrics.bootstrap import Counts
from phmrun.text.coverage import Coverage

N = TypeVar("N")
V = TypeVar("V")
D = TypeVar("D")


class Answer(NamedTuple):
    """Output of a model for one input.

    Attributes:
        text: Printed text, without the last line end.
        values: Content of the line for ``--json``.
    """

    text: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of a model on a split of the data.

    Attributes:
        scores: Scores by name, with baselines that need no model: "bleu", "bleu-of-copy".
        predictions: Text of the file of predictions.
        columns: Names of the columns of ``samples``.
        samples: Rows of a few inputs with their predictions.
        items: Number of predicted items, such as sentences.
        units: Number of units in these, such as tokens.
        unit: Name of the units, in the plural.
        seconds: Seconds of prediction.
        signature: Settings that the time depends on: ``key:value`` pairs joined by ``|``.
        ending: Suffix of the file of predictions.
        losses: Cross-entropy in nats and number of units of each item, ``[items, 2]``; None: not known.
    """

    scores: dict[str, Score]
    predictions: str
    columns: Sequence[str]
    samples: Sequence[Sequence[str]]
    items: int
    units: int
    unit: str
    seconds: float
    signature: str
    ending: str = "txt"
    losses: Counts | None = None


class Predictor(ABC, Generic[N, V, D]):
    """Trained model that answers to lines of text; generic in network, vocabulary and data.

    A task's predictor is a subclass. Its constructor takes network, vocabulary, weights and device, and what
    :meth:`settings` returns.

    Args:
        network: Trained network. A subclass that changes it passes a copy.
        vocabulary: Its vocabulary.
        weights: Name of the weights, for the signature of scores.
        device: Device of the network.

    Attributes:
        prompt: Description of the expected input, in one line.
        exact: True if a prediction is the input with changes. A carriage return before a line feed is then part of the
            line.
        source: Name of the input in errors of a line, ``source:line``.
        coverage: Counts of known and unknown tokens of the input.
    """

    prompt: str
    exact = False
    source = "input"

    def __init__(self, network: N, vocabulary: V, weights: str, device: torch.device | str) -> None:
        self.network, self.vocabulary = network, vocabulary
        self.weights, self.device = weights, torch.device(device)
        self.coverage = Coverage()

    @classmethod
    def settings(cls, config: Any, batch_size: int | None) -> dict[str, Any]:
        """Return further arguments of the constructor, by name, from the config of a run.

        Here it is ``decoding``, the config's section, with another batch size unless that is None.
        """
        return {"decoding": config.decoding.model_copy(update={"batch": batch_size or config.decoding.batch})}

    @abstractmethod
    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Yield the answers to lines in order, batch by batch.

        One answer for each line.
        """

    @abstractmethod
    def evaluate(self, data: D, split: str) -> Evaluation:
        """Predict and score a prepared split of the data."""
