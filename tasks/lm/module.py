"""The Lightning module of language modelling, and its predictor."""

from torch import nn

from phmrun.config import LayerConfig
from phmrun.decoding.sampling import Choice
from phmrun.errors import PhmrunError
from phmrun.models.lstm_language_model import LSTMLanguageModel
from phmrun.models.transformer_xl import TransformerXL
from phmrun.registry import STRUCTURES
from phmrun.text.stream_vocabulary import StreamVocabulary
from phmrun.training.continuation import Prompting, Scoring, Storyteller
from phmrun.training.language import LanguageModelling
from phmrun.training.module import TrainingModule
from phmrun.training.optimizers import optimizer_from, schedule_from
from tasks.lm.config import LanguageModelExperiment


def build_module(config: LanguageModelExperiment, vocabulary: int) -> LanguageModelling:
    """The Lightning module of an experiment.

    Args:
        config: The resolved config.
        vocabulary: Vocabulary entries.

    Raises:
        PhmrunError: Sizes, structures and tying that do not go together.
    """
    training = config.training
    return LanguageModelling(
        build_network(config, vocabulary),
        optimizer_from(training.optimizer),
        schedule_from(training, config.model.width),
        activation=training.activation_penalty,
        change=training.change_penalty,
    )


def build_network(config: LanguageModelExperiment, vocabulary: int) -> nn.Module:
    """The network of an experiment; arguments as for :func:`build_module`."""
    model = config.model
    embedding, output = config.embedding.arguments, config.output.arguments
    plain = config.embedding.structure in STRUCTURES
    if model.tie and plain and output not in (embedding, LayerConfig().arguments):
        raise PhmrunError(
            f"the output map is tied to the embedding, whose structure is {config.embedding.structure!r}",
            where="output.structure",
            hint="Leave output out, or set model.tie=false.",
        )
    if model.network == "transformer-xl":
        return TransformerXL(
            vocabulary,
            width=model.width,
            inner=model.inner,
            heads=model.heads,
            head_width=model.head_width,
            layers=model.layers,
            memory=model.memory,
            bias=model.output_bias,
            tie=model.tie,
            dropout=model.dropout,
            attention_dropout=model.attention_dropout,
            layer=config.layer.arguments,
            embedding=embedding,
            output=output,
        )
    return LSTMLanguageModel(
        vocabulary,
        model.width,
        [model.hidden] * (model.layers - 1),
        bias=model.output_bias,
        tie=model.tie,
        dropout=model.dropout,
        input_dropout=model.input_dropout,
        output_dropout=model.output_dropout,
        word_dropout=model.word_dropout,
        weight_dropout=model.weight_dropout,
        maps=model.maps,
        layer=config.layer.arguments,
        embedding=embedding,
        output=output,
    )


def build_predictor(
    config: LanguageModelExperiment,
    module: TrainingModule,
    vocabulary: StreamVocabulary,
    *,
    weights: str,
    batch_size: int | None,
    device: str,
) -> Storyteller:
    """A trained run that continues and scores text.

    Args:
        config: The resolved config.
        module: The trained module.
        vocabulary: Of the run.
        weights: Which of the run's weights these are.
        batch_size: Parts of a text read at a time; unless given, the config's.
        device: Where to compute.
    """
    decoding = config.decoding
    return Storyteller(
        module.network,
        vocabulary,
        Scoring(decoding.streams, config.evaluation_length, batch_size or decoding.batch, decoding.characters),
        Prompting(
            decoding.mode,
            decoding.words,
            Choice(decoding.choice, decoding.temperature, decoding.top_k, decoding.top_p),
            decoding.seed,
            decoding.nbest,
            decoding.across_lines,
        ),
        memory=decoding.memory,
        compression=(decoding.codebooks, decoding.codewords) if decoding.codebooks else None,
        weights=weights,
        device=device,
    )
