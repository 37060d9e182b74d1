"""A trained model at work, whatever its task: text in, answers out, and the scores of a split."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from phmrun.engine.data import DataModule
from phmrun.metrics import Score


class Answer(NamedTuple):
    """What a model says to one piece of input.

    Attributes:
        text: What is printed, without the last line end.
        values: What ``--json`` prints.
    """

    text: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """What a split of the data gave.

    Attributes:
        scores: By name, with the baselines that need no model: "bleu", "bleu-of-copy".
        predictions: The text of the file of predictions.
        columns: Names of the columns of ``samples``.
        samples: A few inputs with their predictions.
        items: What was predicted: sentences.
        units: How many smaller units these have: tokens.
        unit: Their name, in the plural.
        seconds: Time of the prediction.
        signature: What that time depends on, as ``key:value`` pairs joined by ``|``.
        ending: Of the file of predictions.
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


class Predictor(Protocol):
    """A trained model with everything that it needs to be used on text.

    One that gives its input back, with something changed, has ``exact = True``: the carriage return of a line that ends
    in CR LF is then part of the line.

    Attributes:
        prompt: What to type, in one line.
    """

    prompt: str

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Answers to a stream of lines, in order, each as soon as its batch is complete."""

    def evaluate(self, data: DataModule, split: str) -> Evaluation:
        """Predictions and scores of a split of the data."""
