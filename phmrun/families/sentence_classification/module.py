"""Training module of sentence classifiers, and their export graph."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.engine.module import (
    UNROLLED,
    Criterion,
    ExportGraph,
    GraphFunction,
    Loss,
    Prediction,
    TrainingModule,
    build_network,
    criterion,
    cross_entropy,
    random_tokens,
)
from phmrun.engine.optimizers import OptimizerBuilder, optimizer_from
from phmrun.engine.schedules import Schedule, schedule_from
from phmrun.errors import PhmrunError
from phmrun.families.sentence_classification.config import ClassificationExperiment
from phmrun.families.sentence_classification.data import ClassificationBatch, ClassificationData
from phmrun.families.sentence_classification.hugging_face import HuggingFaceClassifier
from phmrun.families.sentence_classification.vectors import Found
from phmrun.layers import LSTM, folded
from phmrun.layers.inference import table_of
from phmrun.layers.structures.dense import Dense
from phmrun.models.hugging_face import OWN_FORMATS, HuggingFaceNetwork
from phmrun.models.sentences import LSTMClassifier, Sentences, own_vectors
from phmrun.text.vocabulary import EOS, PAD


class ClassificationModule(TrainingModule):
    """Training module of a network from sentences to class logits ``[batch, classes]``.

    Args:
        network: Network to train.
        optimizer: Builder of the optimizer.
        schedule: Learning-rate schedule.
        smoothing: Label smoothing ε, in training only.
        criterion: Loss function, in training only.
        sentences: Sentences per item, 1 or 2.
    """

    counted = ("accuracy",)

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerBuilder,
        schedule: Schedule,
        *,
        smoothing: float = 0.0,
        criterion: Criterion = cross_entropy,
        sentences: int = 1,
    ) -> None:
        super().__init__(network, optimizer, schedule)
        self.smoothing, self.criterion, self.sentences = smoothing, criterion, sentences

    def loss(self, batch: ClassificationBatch) -> Loss:
        """Return the loss and the correct labels, summed over the items.

        Label smoothing and ``criterion`` apply in training only. The result's ``nll`` is always the plain
        cross-entropy; "accuracy" counts the items whose highest logit is correct.
        """
        (prediction,) = predictions = self.predictions(batch)
        logits = prediction.vectors
        total = nll = F.cross_entropy(logits, batch.labels, reduction="sum")
        if self.training and (self.smoothing or self.criterion is not cross_entropy):
            total = self.criterion(logits, batch.labels, smoothing=self.smoothing)
        hits = (logits.argmax(1) == batch.labels).sum()
        return Loss(total, nll, batch.units, {"accuracy": hits}, predictions)

    def predictions(self, batch: ClassificationBatch) -> list[Prediction]:
        """Return one prediction: the logits of the batch, with an identity map."""
        return [Prediction(self.network(*batch.sentences), nn.Identity())]

    def export_graph(self) -> ExportGraph:
        """Return the export graph from tokens to class scores."""
        return classification_graph(self.network, self.sentences)

    def begin(self, data: ClassificationData) -> None:
        """Read the weights of a model's folder, or copy pretrained word vectors to the network's embedding, in place.

        Nothing is done if there are none.
        """
        if isinstance(self.network, HuggingFaceNetwork):
            self.network.read_start()
        if data.pretrained is not None:
            place_vectors(self.network.get_submodule("embedding"), data.pretrained)


def build_module(config: ClassificationExperiment, words: int, classes: int) -> ClassificationModule:
    """Build the module of an experiment.

    Its network is that of ``model.network``, with ``words`` vocabulary entries and ``classes`` outputs.

    Raises:
        PhmrunError: (exit 2) The network is unknown, or sizes and structures do not match.
    """
    training, network = config.training, build_network(config.task, config, words, classes)
    return ClassificationModule(
        network,
        optimizer_from(training.optimizer),
        schedule_from(training, getattr(network, "width", cast(Any, config.model).width)),
        smoothing=training.label_smoothing,
        criterion=criterion(training.loss),
        sentences=len(config.names),
    )


def build_hugging_face(config: Any, words: int, classes: int) -> HuggingFaceClassifier:
    """Build the network of transformers of an experiment.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not match; (exit 3) the folder cannot be read.
    """
    return HuggingFaceClassifier(config.model, (words, config.labels), config.structures, sentences=len(config.names))


def build_lstm(config: Any, words: int, classes: int) -> LSTMClassifier:
    """Build the LSTM of an experiment with the options ``config.lstm``.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not match.
    """
    return LSTMClassifier(config.lstm, (words, classes), config.structures, sentences=len(config.names))


@torch.no_grad()
def place_vectors(embedding: nn.Module, pretrained: Found) -> None:
    """Copy pretrained vectors to an embedding with a single dense table, in place.

    The other rows are drawn with the standard deviation of the pretrained vectors. If no word has a vector, nothing
    changes.

    Raises:
        PhmrunError: The embedding has no single dense table, or its width differs.
    """
    tables = own_vectors(embedding)
    structure = tables[0].structure
    if len(tables) > 1 or not isinstance(structure, Dense):
        what = "pretrained vectors need a table with a row for each word"
        raise PhmrunError(what, where="embedding.structure", valid=("dense", "projective"))
    if structure.in_features != pretrained.vectors.shape[1]:
        what = f"vectors of {pretrained.vectors.shape[1]} numbers do not fit a table of {structure.in_features}"
        raise PhmrunError(what, where="data.vectors")
    if len(pretrained.places):
        structure.reset_parameters(float(pretrained.vectors.std()))
        structure.matrix[torch.from_numpy(pretrained.places)] = torch.from_numpy(pretrained.vectors)


class ScoresOfClasses(GraphFunction):
    """Classifier as a function of token tensors.

    Callers put an end token after each sentence; none is added. Padding is always masked, so that the graph does not
    depend on the contents of a batch.
    """

    def forward(self, *tokens: Tensor) -> Tensor:
        """Return class scores ``[batch, classes]`` from the tokens ``[batch, length]`` of each sentence."""
        inside = [part.ne(PAD) for part in tokens]
        parts = zip(tokens, inside, strict=True)
        scores: Tensor = self.network(*(Sentences(part, seen.sum(1), seen[:, None, None, :]) for part, seen in parts))
        return scores


def classification_graph(network: nn.Module, sentences: int = 1) -> ExportGraph:
    """Return the export graph from tokens to class scores.

    A network with an LSTM or of transformers is marked as untraceable. The exported network has folded structures and,
    unless it is one of transformers, a plain embedding
    table; it is compared with ``network``. The three examples are random with seed 1; the last row of each is padded,
    if it is longer than one token.

    Args:
        network: Classifier with an attribute ``embedding``, or of transformers.
        sentences: Sentences per item, 1 or 2.
    """
    plain = network.unstructured() if isinstance(network, HuggingFaceNetwork) else folded(network)
    untraceable = UNROLLED if any(isinstance(part, LSTM) for part in network.modules()) else ""
    if isinstance(plain, HuggingFaceNetwork):
        vocabulary, untraceable = plain.settings.vocab_size, OWN_FORMATS
    else:
        plain.embedding = table_of(plain.get_submodule("embedding"))
        vocabulary = plain.embedding.num_embeddings
    generator = torch.Generator().manual_seed(1)
    examples = []
    # The first example is traced, and torch.export takes sizes of 1 as constants; outputs are compared on all examples.
    # Two sentences have different lengths, so that swapped inputs are detected.
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
        examples=examples,
        facts={"pad": str(PAD), "eos": str(EOS)},
        untraceable=untraceable,
        trained=network,
    )
