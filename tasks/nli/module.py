"""The Lightning module and the predictor of natural language inference."""

from functools import partial

from phmrun.engine.optimizers import optimizer_from, schedule_from
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import build_predictor as sentence_classifier
from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.tasks.nli.config import NLIExperiment


def build_module(config: NLIExperiment, words: int, classes: int) -> ClassificationModule:
    """The module of an experiment.

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
        matching=model.matching,
        mlp=model.mlp,
        mlp_layers=model.mlp_layers,
        dropout=model.dropout,
        word_dropout=model.word_dropout,
        cell=model.cell,
        maps=model.gate_maps,
        **config.structures,
    )
    return ClassificationModule(
        network,
        optimizer_from(training.optimizer),
        schedule_from(training, model.hidden),
        smoothing=training.label_smoothing,
    )


build_predictor = partial(sentence_classifier, prompt="a premise, a tab, a hypothesis", names=("premise", "hypothesis"))
"""Makes the predictor of a trained module."""
