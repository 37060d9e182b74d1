"""Lightning module and predictor of natural language inference."""

from functools import partial

from phmrun.engine.losses import criterion
from phmrun.engine.network import build_network
from phmrun.engine.optimizers import optimizer_from
from phmrun.engine.schedules import schedule_from
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import build_predictor as sentence_classifier
from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.tasks.nli.config import NLIExperiment
from phmrun.text.nli_pairs import sentences_of


def build_module(config: NLIExperiment, words: int, classes: int) -> ClassificationModule:
    """Build the module of an experiment.

    Its network is that of ``model.network``, with ``words`` vocabulary entries and ``classes`` outputs.

    Raises:
        PhmrunError: (exit 2) The network is unknown, or sizes and structures do not match.
    """
    training = config.training
    return ClassificationModule(
        build_network("nli", config, words, classes),
        optimizer_from(training.optimizer),
        schedule_from(training, config.model.hidden),
        smoothing=training.label_smoothing,
        criterion=criterion(training.loss),
        sentences=2,
    )


def build_lstm(config: NLIExperiment, words: int, classes: int) -> LSTMClassifier:
    """Build the LSTM of an experiment.

    Word vectors are trained if the experiment's ``learns_vectors`` is true.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not match.
    """
    options = config.model.model_copy(update={"train_embedding": config.learns_vectors})
    return LSTMClassifier(options, (words, classes), config.structures)


build_predictor = partial(
    sentence_classifier,
    prompt="a premise, a tab, a hypothesis, or a JSON object of both",
    names=("premise", "hypothesis"),
    sentences_of=sentences_of,
)
