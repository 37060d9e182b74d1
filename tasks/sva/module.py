"""The Lightning module and the predictor of subject–verb agreement."""

from functools import partial

from phmrun.engine.losses import criterion
from phmrun.engine.network import build_network
from phmrun.engine.optimizers import optimizer_from
from phmrun.engine.schedules import schedule_from
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import build_predictor as sentence_classifier
from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.tasks.sva.config import AgreementExperiment


def build_module(config: AgreementExperiment, words: int, classes: int) -> ClassificationModule:
    """The module of an experiment with so many vocabulary entries and classes."""
    training = config.training
    return ClassificationModule(
        build_network("sva", config, words, classes),
        optimizer_from(training.optimizer),
        schedule_from(training, config.model.width),
        smoothing=training.label_smoothing,
        criterion=criterion(training.loss),
    )


def build_lstm(config: AgreementExperiment, words: int, classes: int) -> LSTMClassifier:
    """The LSTM that a config describes."""
    model = config.model
    return LSTMClassifier(
        words,
        classes,
        sentences=1,
        hidden=model.width,
        mlp_layers=0,
        maps=model.gate_maps,
        **model.model_dump(include={"width", "layers", "pooling", "dropout", "word_dropout"}),
        **config.structures,
    )


build_predictor = partial(sentence_classifier, prompt="the words before a verb, one prefix a line", names=("prefix",))
