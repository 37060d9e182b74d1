"""The Lightning module and the predictor of subject–verb agreement."""

from functools import partial

from phmrun.engine.optimizers import optimizer_from, schedule_from
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import build_predictor as sentence_classifier
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


build_predictor = partial(sentence_classifier, prompt="the words before a verb, one prefix a line", names=("prefix",))
"""Makes the predictor of a trained module."""
