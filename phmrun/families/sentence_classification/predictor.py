"""Predictor of sentence classifiers: labels and probabilities of text, accuracy of a split."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from phmrun.engine.predictor import Answer, Evaluation, Predictor
from phmrun.errors import data_error
from phmrun.families.sentence_classification.config import ClassificationExperiment
from phmrun.families.sentence_classification.data import Baseline, ClassificationData
from phmrun.families.sentence_classification.items import ClassificationVocabulary, Item, labeled
from phmrun.layers import for_inference
from phmrun.metrics.accuracy import LabelPair, accuracy, majority
from phmrun.models.sentences import batch_of
from phmrun.progress import note, progress
from phmrun.text.batches import chunks, evaluation_batches
from phmrun.text.lines import columns_fault
from phmrun.text.nli_pairs import header_of, sentences_of

SAMPLES = 8
BATCH = 256
CHUNK = 4096  # items sorted by length and classified together


class Classified(NamedTuple):
    """Classified items.

    Attributes:
        probabilities: ``[items, labels]``.
        log_probabilities: ``[items, labels]``.
        tokens: Number of words and end tokens read.
    """

    probabilities: np.ndarray
    log_probabilities: np.ndarray
    tokens: int


class SentenceClassifier(Predictor[nn.Module, ClassificationVocabulary, ClassificationData]):
    """Classifier of sentences or sentence pairs with a trained network.

    Args:
        network: Trained network; it is copied, not changed.
        vocabulary: Words and labels.
        prompt: Description of an input line; the sentences of an item are separated by tabs.
        names: Names of the sentences of an item: ("premise", "hypothesis").
        weights: Name of the run's weights, for the signature of scores.
        batch: Items per batch; default: 256.
        device: Device of the network.
    """

    def __init__(
        self,
        network: nn.Module,
        vocabulary: ClassificationVocabulary,
        *,
        prompt: str,
        names: Sequence[str],
        weights: str = "given",
        batch: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(for_inference(network).to(device), vocabulary, weights, device)
        self.prompt, self.names = prompt, tuple(names)
        self.batch = batch or BATCH

    @classmethod
    def settings(cls, config: ClassificationExperiment, batch_size: int | None) -> dict[str, Any]:
        """Return prompt, names of sentences and batch size; see :meth:`Predictor.settings`."""
        return {"prompt": config.prompt, "names": config.names, "batch": batch_size}

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Yield the label of each line and its probability, separated by a tab.

        The probability has 4 decimals in the text. The values have 6; their keys are prediction, probability and
        probabilities (of all labels, by label). Lines are read in chunks of :data:`CHUNK`, or of a larger ``batch``;
        one by one if ``batch`` is 1. A first line that names the columns has no answer.

        Raises:
            PhmrunError: (exit 3) A line does not have the number of sentences of an item, or of the named columns.
        """
        labels = self.vocabulary.labels
        for chunk in chunks(self._items(lines), self.batch, CHUNK):
            classified = self.classify(chunk)
            for row in classified.probabilities:
                label = labels[row.argmax()]
                shares = {name: round(share, 6) for name, share in zip(labels, row.tolist(), strict=True)}
                values = {"prediction": label, "probability": shares[label], "probabilities": shares}
                yield Answer(f"{label}\t{shares[label]:.4f}", values)

    def evaluate(self, data: ClassificationData, split: str) -> Evaluation:
        """Classify a split and score it.

        Returns:
            Scores "accuracy" and "accuracy-<part>", and those of all baselines, "accuracy-of-majority" always among
            them. Baselines whose package is not installed are left out with a note. The predictions are lines
            "predicted, probability, label, part", separated by tabs, in the split's order below a header. The samples
            are the first items. The seconds are those of the network, without reading and baselines.
        """
        counts, left_out = Counter[LabelPair](), Counter[str]()
        baselines = {name: Counter[LabelPair]() for name in data.corpus.baselines}
        samples: list[tuple[str, ...]] = []
        rows = ["predicted\tprobability\tlabel\tpart\n"]
        seconds, tokens = 0.0, 0
        labels = self.vocabulary.labels
        index, losses = {label: number for number, label in enumerate(labels)}, []
        with progress(f"labelling {split}", None, "items") as advance:
            items = labeled(data.files[split](), left_out)
            while chunk := list(islice(items, CHUNK)):
                # The time excludes reading the file and the baselines.
                began = time.perf_counter()
                classified = self.classify([item.sentences for item in chunk])
                seconds += time.perf_counter() - began
                tokens += classified.tokens
                gold = [index[item.label] for item in chunk]
                losses.append(-classified.log_probabilities[np.arange(len(chunk)), gold])
                for item, row in zip(chunk, classified.probabilities, strict=True):
                    predicted, probability = labels[row.argmax()], f"{row.max():.4f}"
                    counts[LabelPair(item.label, predicted, item.part)] += 1
                    rows.append(f"{predicted}\t{probability}\t{item.label}\t{item.part}\n")
                    if len(samples) < SAMPLES:
                        samples.append((*item.sentences, item.label, predicted, probability))
                _count_baselines(baselines, data.corpus.baselines, chunk)
                advance(len(chunk))
        scores = {**accuracy(counts, left_out), **majority(counts, left_out)}
        for name, outcomes in baselines.items():
            scores |= accuracy(outcomes, left_out, f"-of-{name}")
        reading = "".join(f"|{key}:{value}" for key, value in data.corpus.reading.items())
        weights = f"{reading}|weights:{self.weights}"
        scores = {name: score.signed(reading if "-of-" in name else weights) for name, score in scores.items()}
        nats = np.concatenate(losses)
        return Evaluation(
            scores,
            predictions="".join(rows),
            ending="tsv",
            columns=(*self.names, "label", "predicted", "probability"),
            samples=samples,
            items=counts.total(),
            units=tokens,
            unit="tokens",
            seconds=seconds,
            signature=f"batch:{self.batch}",
            losses=np.stack([nats, np.ones(len(nats))], axis=1),
        )

    @torch.inference_mode()
    def classify(self, items: Sequence[Sequence[str]]) -> Classified:
        """Return the probabilities of all labels for items, in their order.

        An item is the sequence of its sentences; at least one item is required. Items are batched by length, longest
        first. The result also has the number of tokens with an end token a sentence.
        """
        sides = [
            [np.array(self.vocabulary.encode(text), dtype=np.int64) for text in side]
            for side in zip(*items, strict=True)
        ]
        for ids in (ids for side in sides for ids in side):
            self.coverage.add(ids != self.vocabulary.words.unknown)
        lengths = np.array([[len(row) for row in side] for side in sides])
        probabilities, logs = np.empty((2, len(items), len(self.vocabulary.labels)), dtype=np.float32)
        for rows in evaluation_batches(lengths.max(0), unit="sentences", size=self.batch):
            sentences = [batch_of([side[row] for row in rows]).to(self.device) for side in sides]
            logits = self.network(*sentences)
            probabilities[rows] = logits.softmax(1).float().cpu().numpy()
            logs[rows] = logits.float().log_softmax(1).cpu().numpy()
        return Classified(probabilities, logs, int(lengths.sum()) + lengths.size)

    def _items(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yield the sentences of each line, with single spaces as the readers of files do.

        A first line of names of columns, those of all sentences among them, gives the order of the columns instead.

        Raises:
            PhmrunError: (exit 3) The number of columns is wrong.
        """
        columns: Sequence[str] = self.names
        for number, line in enumerate(lines, 1):
            header = header_of(line) if number == 1 else ()
            if set(self.names) <= set(header) and len(set(header)) == len(header):
                columns = header
                continue
            where, is_plain = f"{self.source}:{number}", columns is not self.names or len(columns) == 1
            cells = line.split("\t") if is_plain else sentences_of(line, where)
            if len(cells) != len(columns):
                expected = f"instead of {len(columns)}: {', '.join(columns)}"
                hint = "Tabs separate columns." + (" Leave out labels." if columns is self.names else "")
                raise data_error(columns_fault(cells, expected), where, hint)
            yield [" ".join(cells[columns.index(name)].split()) for name in self.names]


def _count_baselines(
    counts: dict[str, Counter[LabelPair]], baselines: Mapping[str, Baseline], items: Sequence[Item]
) -> None:
    """Add the baselines' labels of items to ``counts``, in place, by name of baseline.

    A baseline whose package is not installed is removed from ``counts``, with a note.
    """
    for name in [*counts]:
        try:
            labels = baselines[name](items)
        except ModuleNotFoundError as error:
            del counts[name]
            note(f"without the baseline {name}: it needs {error.name} (pip install 'phmrun[baselines]')")
            continue
        counts[name].update(LabelPair(item.label, label, item.part) for item, label in zip(items, labels, strict=True))
