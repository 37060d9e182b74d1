"""Lightning module and predictor of natural language inference."""

from functools import partial

from phmrun.engine.losses import criterion
from phmrun.engine.optimizers import optimizer_from
from phmrun.engine.schedules import schedule_from
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.families.sentence_classification.predictor import build_predictor as sentence_classifier
from phmrun.models.lstm_classifier import LSTMClassifier
from phmrun.tasks.nli.config import NLIExperiment


def build_module(config: NLIExperiment, words: int, classes: int) -> ClassificationModule:
    """Build the module of an experiment.

    Word vectors are trained as the experiment's ``learns_vectors`` says.

    Args:
        config: The experiment.
        words: Entries of the vocabulary.
        classes: Number of classes.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not match.
    """
    model, training = config.model, config.training
    options = model.model_copy(update={"train_embedding": config.learns_vectors})
    network = LSTMClassifier(options, (words, classes), config.structures)
    return ClassificationModule(
        network,
        optimizer_from(training.optimizer),
        schedule_from(training, model.hidden),
        smoothing=training.label_smoothing,
        criterion=criterion(training.loss),
    )


build_predictor = partial(sentence_classifier, prompt="a premise, a tab, a hypothesis", names=("premise", "hypothesis"))
