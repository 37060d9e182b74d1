"""The Lightning module and the predictor of subject–verb agreement."""

from phmrun.engine.module import TrainingModule
from phmrun.engine.optimizers import optimizer_from, schedule_from
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import SentenceClassifier
from phmrun.families.sentence_classification.vocabulary import ClassificationVocabulary
from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.registry import load
from phmrun.tasks.sva.config import NETWORKS, AgreementExperiment


def build_module(config: AgreementExperiment, words: int, classes: int) -> ClassificationModule:
    """The module of an experiment.

    Args:
        config: The resolved config.
        words: Vocabulary entries.
        classes: Classes.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """
    training = config.training
    return ClassificationModule(
        load(NETWORKS[config.model.network])(config, words, classes),
        optimizer_from(training.optimizer),
        schedule_from(training, config.model.width),
        smoothing=training.label_smoothing,
    )


def build_lstm(config: AgreementExperiment, words: int, classes: int) -> LSTMClassifier:
    """The LSTM that a config describes."""
    model = config.model
    return LSTMClassifier(
        words,
        classes,
        sentences=1,
        width=model.width,
        hidden=model.width,
        layers=model.layers,
        pooling=model.pooling,
        mlp_layers=0,
        dropout=model.dropout,
        word_dropout=model.word_dropout,
        maps=model.gate_maps,
        **config.structures,
    )


def build_predictor(
    config: AgreementExperiment,
    module: TrainingModule,
    vocabulary: ClassificationVocabulary,
    *,
    weights: str,
    batch_size: int | None,
    device: str,
) -> SentenceClassifier:
    """The predictor of a trained module.

    Args:
        config: The resolved config.
        module: The trained module.
        vocabulary: Of the run.
        weights: Which of the run's weights these are.
        batch_size: Prefixes at a time.
        device: Where to compute.
    """
    return SentenceClassifier(
        module.network,
        vocabulary,
        prompt="the words before a verb, one prefix a line",
        names=("prefix",),
        weights=weights,
        batch=batch_size,
        device=device,
    )
