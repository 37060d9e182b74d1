"""The Lightning module and the predictor of natural language inference."""

from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.text.labelled import LabelledVocabulary
from phmrun.training.classification import Classification
from phmrun.training.classifier import Classifier
from phmrun.training.module import TrainingModule
from phmrun.training.optimizers import optimizer_from, schedule_from
from tasks.nli.config import InferenceExperiment


def build_module(config: InferenceExperiment, words: int, classes: int) -> Classification:
    """The Lightning module of an experiment.

    Args:
        config: The resolved config.
        words: Vocabulary entries.
        classes: Classes.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """
    model, training = config.model, config.training
    network = LSTMClassifier(
        words,
        classes,
        sentences=2,
        width=model.width,
        train_embedding=config.learns_vectors,
        hidden=model.hidden,
        layers=model.layers,
        bidirectional=model.bidirectional,
        pooling=model.pooling,
        mlp=model.mlp,
        mlp_layers=model.mlp_layers,
        dropout=model.dropout,
        word_dropout=model.word_dropout,
        maps=model.gate_maps,
        layer=config.layer.arguments,
        embedding=config.embedding.arguments,
        output=config.output.arguments,
    )
    return Classification(
        network,
        optimizer_from(training.optimizer),
        schedule_from(training, model.hidden),
        smoothing=training.label_smoothing,
    )


def build_predictor(
    config: InferenceExperiment,
    module: TrainingModule,
    vocabulary: LabelledVocabulary,
    *,
    weights: str,
    batch_size: int | None,
    device: str,
) -> Classifier:
    """The predictor of a trained module.

    Args:
        config: The resolved config.
        module: The trained module.
        vocabulary: Of the run.
        weights: Which of the run's weights these are.
        batch_size: Pairs at a time.
        device: Where to compute.
    """
    return Classifier(
        module.network,
        vocabulary,
        prompt="a premise, a tab, a hypothesis",
        names=("premise", "hypothesis"),
        weights=weights,
        batch=batch_size,
        device=device,
    )
