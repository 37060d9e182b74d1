"""Training of the biaffine parser on heads and labels, and its export graph."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.engine.module import UNROLLED, ExportGraph, GraphFunction, Loss, Prediction, TrainingModule, build_network
from phmrun.engine.optimizers import OptimizerBuilder, optimizer_from
from phmrun.engine.schedules import Schedule, schedule_from
from phmrun.layers import folded
from phmrun.tasks.parse.biaffine_parser import BiaffineParser, ParserScores
from phmrun.tasks.parse.config import ParsingExperiment
from phmrun.tasks.parse.data import TreeBatch
from phmrun.tasks.parse.vocabulary import NO_LABEL
from phmrun.text.vocabulary import EOS, PAD


class ParserModule(TrainingModule):
    """Parser trained on the sum of two cross-entropies: heads, and labels given the gold heads.

    Validation counts words with the correct best head ("uas"), and those whose label is also correct ("las"), with
    subtypes if labels are learned with them. It searches for no tree. Only labels have label smoothing.
    """

    counted = ("uas", "las")

    def __init__(
        self, network: BiaffineParser, optimizer: OptimizerBuilder, schedule: Schedule, *, smoothing: float
    ) -> None:
        super().__init__(network, optimizer, schedule)
        self.smoothing = smoothing

    @property
    def parser(self) -> BiaffineParser:
        """Network as a :class:`BiaffineParser`."""
        return cast(BiaffineParser, self.network)

    def loss(self, batch: TreeBatch) -> Loss:
        """Return the loss summed over the batch's words: heads, and labels of gold heads.

        In training it has predictions, and labels are smoothed in the minimized loss, to which the network's penalty
        is added for each word; in validation it has the hits "uas" and "las" of the best heads.
        """
        scores = self.network(*batch.inputs, groups=batch.groups)
        predictions = self._of(scores, batch)
        arcs, labels = (prediction.vectors for prediction in predictions)
        heads, wanted = (values.flatten().index_select(0, batch.positions) for values in (batch.heads, batch.labels))
        of_heads = F.cross_entropy(arcs, heads, reduction="sum")
        of_labels = F.cross_entropy(labels, wanted, reduction="sum", ignore_index=NO_LABEL)
        nll = of_heads + of_labels
        if not self.training:
            best_heads = arcs.argmax(dim=-1)
            chosen = batch.heads.flatten().index_copy(0, batch.positions, best_heads).view_as(batch.heads)
            best = self.parser.label_scores(scores, chosen, batch.positions).argmax(dim=-1)
            right = best_heads == heads
            hits = {"uas": right.sum(), "las": (right & (best == wanted)).sum()}
            return Loss(nll, nll, batch.units, hits)
        # Only the minimized loss is smoothed, so that the reported likelihood compares with validation.
        if self.smoothing:
            of_labels = F.cross_entropy(
                labels, wanted, reduction="sum", ignore_index=NO_LABEL, label_smoothing=self.smoothing
            )
        minimized = of_heads + of_labels + batch.units * self.parser.penalty()
        return Loss(minimized, nll, batch.units, predictions=predictions)

    def predictions(self, batch: TreeBatch) -> list[Prediction]:
        """Return predictions of a batch, for distillation.

        They are those of each word's head, and of its label given the gold head.
        """
        return self._of(self.network(*batch.inputs, groups=batch.groups), batch)

    def _of(self, scores: ParserScores, batch: TreeBatch) -> list[Prediction]:
        """Return the predictions of a batch's words.

        They are the logits of all possible heads, and of labels given the gold heads, without an output map.
        """
        arcs = possible_arcs(scores.arcs, batch.inputs[-1]).flatten(0, 1).index_select(0, batch.positions)
        labels = self.parser.label_scores(scores, batch.heads, batch.positions)
        return [Prediction(arcs, nn.Identity()), Prediction(labels, nn.Identity())]

    def export_graph(self) -> ExportGraph:
        """Return the export graph: :func:`parser_graph`."""
        return parser_graph(self.parser)


def possible_arcs(arcs: Tensor, lengths: Tensor) -> Tensor:
    """Return arc scores without impossible heads.

    Heads beyond a sentence's end have -∞. Shape: ``[batch, dependents, heads]``.
    """
    beyond = torch.arange(arcs.shape[2], device=arcs.device) >= lengths.unsqueeze(1)
    return arcs.masked_fill(beyond.unsqueeze(1), float("-inf"))


def build_module(config: ParsingExperiment, *sizes: int) -> ParserModule:
    """Build the module of an experiment.

    Its network is that of ``model.network``. Sizes are rows of the tables of words, tags and characters, and numbers of
    labels and of rare words, the last only if these are told apart.

    Raises:
        PhmrunError: (exit 2) The network is unknown, or sizes and structures do not match.
    """
    training = config.training
    network = cast(BiaffineParser, build_network("parse", config, *sizes))
    if config.data.vocabulary.tags == "both":
        network.tag_columns = 2
    return ParserModule(
        network,
        optimizer_from(training.optimizer),
        schedule_from(training, config.model.hidden),
        smoothing=training.label_smoothing,
    )


class ArcsAndLabels(GraphFunction):
    """Biaffine parser as a function of the inputs of :meth:`BiaffineParser.forward`."""

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of arcs and of labels.

        Shapes: ``[batch, dependents, heads]`` and ``[batch, labels, dependents, heads]``.
        """
        scores = self.network(*inputs)
        return scores.arcs, self.network.label_classifier(scores.dependents, scores.heads)


def parser_graph(network: BiaffineParser) -> ExportGraph:
    """Return the export graph of a parser.

    It maps words, tags and characters to scores of arcs and labels. The exported network has folded structures and is
    compared with ``network``. The graph is marked as untraceable, for its LSTMs.
    """
    plain = folded(network)
    sentence, spelling = ("batch", "length"), ("spellings",)
    return ExportGraph(
        plain,
        ArcsAndLabels(plain).eval(),
        ArcsAndLabels(network).eval(),
        inputs={
            "words": sentence,
            "tags": sentence if network.tag_columns == 1 else (*sentence, network.tag_columns),
            "characters": (*spelling, "longest"),
            "character_counts": spelling,
            "spellings": sentence,
            "lengths": ("batch",),
        },
        outputs=["arcs", "labels"],
        # Lengths include the root, so the second example is one word of one character.
        examples=[_parsed(network, *sizes) for sizes in ((2, 7, 5), (1, 2, 1), (3, 21, 12))],
        untraceable=UNROLLED,
        trained=network,
    )


def _parsed(network: BiaffineParser, batch: int, length: int, longest: int) -> tuple[Tensor, ...]:
    """Return random inputs of the export graph.

    They are ``batch`` sentences: the first has ``length`` positions, the others about half. Ids are no special ones;
    the seed is ``length``. Words have up to ``longest`` characters; the six tensors are in the order of the graph's
    inputs.
    """
    generator = torch.Generator().manual_seed(length)

    def numbers(entries: int, *shape: int) -> Tensor:
        """Return random ids below ``entries``, without the special ones if there are others."""
        return torch.randint(min(EOS, entries - 1), entries, shape, generator=generator)

    counts = torch.randint(1, longest + 1, (batch * length,), generator=generator).sort(descending=True).values
    counts[0] = longest
    characters = numbers(network.letters.num_embeddings, batch * length, longest)
    characters[torch.arange(longest) >= counts.unsqueeze(1)] = PAD
    spellings = torch.randint(batch * length, (batch, length), generator=generator)
    lengths = torch.tensor([length, *(length // 2 + 1 for _ in range(batch - 1))])
    words = numbers(network.words, batch, length)
    tags = numbers(network.tags.num_embeddings, batch, length, network.tag_columns)
    if network.tag_columns == 1:
        tags = tags.squeeze(-1)
    return words, tags, characters, counts, spellings, lengths
