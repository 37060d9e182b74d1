"""Lightning module and predictor of subject–verb agreement."""

from functools import partial

from phmrun.engine.losses import criterion
from phmrun.engine.network import build_network
from phmrun.engine.optimizers import optimizer_from
from phmrun.engine.schedules import schedule_from
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import build_predictor as sentence_classifier
from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.models.options import LSTMClassifierOptions
from phmrun.tasks.sva.config import AgreementExperiment, AgreementOptions


def build_module(config: AgreementExperiment, words: int, classes: int) -> ClassificationModule:
    """Build the module of an experiment.

    Its network is that of ``model.network``, with ``words`` vocabulary entries and ``classes`` outputs.

    Raises:
        PhmrunError: (exit 2) The network is unknown, or sizes and structures do not match.
    """
    training = config.training
    return ClassificationModule(
        build_network("sva", config, words, classes),
        optimizer_from(training.optimizer),
        schedule_from(training, config.model.width),
        smoothing=training.label_smoothing,
        criterion=criterion(training.loss),
    )


def build_lstm(config: AgreementExperiment, words: int, classes: int) -> LSTMClassifier:
    """Build the LSTM of an experiment.

    Its hidden width is the embedding width, and it has no MLP. Other options have the values of the ``model`` section,
    if it has them.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not match.
    """
    shared = AgreementOptions.model_fields.keys() & LSTMClassifierOptions.model_fields.keys()
    options = LSTMClassifierOptions(
        hidden=config.model.width, mlp_layers=0, **config.model.model_dump(include=set(shared))
    )
    return LSTMClassifier(options, (words, classes), config.structures, sentences=1)


build_predictor = partial(sentence_classifier, prompt="the words before a verb, one prefix a line", names=("prefix",))
