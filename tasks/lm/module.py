"""Training of language models with a state across segments, and export graphs."""

import math
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from phmrun.config import LayerConfig
from phmrun.engine.module import ExportGraph, GraphFunction, Loss, Prediction, TrainingModule, build_network
from phmrun.engine.optimizers import OptimizerBuilder, optimizer_from
from phmrun.engine.schedules import Schedule, schedule_from
from phmrun.errors import PhmrunError
from phmrun.layers import LSTM, folded
from phmrun.layers.inference import table_of
from phmrun.models.hugging_face import OWN_FORMATS
from phmrun.registry import STRUCTURES
from phmrun.tasks.lm.config import LanguageModelExperiment
from phmrun.tasks.lm.data import StreamBatch
from phmrun.tasks.lm.hugging_face import HuggingFaceLanguageModel
from phmrun.tasks.lm.language_model import LanguageModel, Reading, State
from phmrun.tasks.lm.lstm import LSTMLanguageModel
from phmrun.tasks.lm.transformer_xl import TransformerXL

MEMORY = "reading"  # checkpoint key of the states of all processes


class LanguageModelModule(TrainingModule):
    """Language model trained on consecutive segments of streams.

    The state after a segment is the initial state of the next one, across optimizer steps and in checkpoints.
    Validation has its own state.

    Args:
        network: The language model.
        optimizer: Builder of the optimizer.
        schedule: Learning-rate schedule.
        activation: α, weight of the mean square of the last outputs, after dropout (AR; Merity et al. 2018, section 4).
        change: β, weight of the mean square of their change between words, before dropout (TAR; ibid.).
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: OptimizerBuilder,
        schedule: Schedule,
        *,
        activation: float = 0.0,
        change: float = 0.0,
    ) -> None:
        super().__init__(network, optimizer, schedule)
        self.activation, self.change = activation, change
        self.memory: dict[bool, State] = {}
        self._pace = 1.0

    @property
    def reader(self) -> LanguageModel:
        """Network as a :class:`LanguageModel`."""
        return cast(LanguageModel, self.network)

    def loss(self, batch: StreamBatch) -> Loss:
        """Return the loss summed over the batch's predicted words.

        The state is kept for the next batch. In training, the penalties of activation and change (if set) are added to
        the minimized loss, times the number of words.
        """
        reading = self._read(batch)
        (prediction,) = predictions = self._of(reading, batch)
        targets = batch.targets.reshape(-1)
        if batch.places is not None:
            targets = targets.index_select(0, batch.places)
        loss, nll = self.reader.loss(prediction.vectors, targets)
        if self.training:
            penalty: Tensor | float = 0.0
            if self.activation:
                penalty = self.activation * reading.hidden.square().mean()
            if self.change and reading.outputs.shape[1] > 1:
                penalty = penalty + self.change * (reading.outputs[:, 1:] - reading.outputs[:, :-1]).square().mean()
            loss = loss + batch.units * penalty
        return Loss(loss, nll, batch.units, predictions=predictions)

    def predictions(self, batch: StreamBatch) -> list[Prediction]:
        """Return predictions of the batch's words.

        The state is kept for the next batch.
        """
        return self._of(self._read(batch), batch)

    def _read(self, batch: StreamBatch) -> Reading:
        """Read a batch after the kept state, and keep the new.

        There is no state at the beginning of the streams. Training and validation have one state each.
        """
        state = None if batch.first else self.memory.get(self.training)
        if state is not None:
            state = tuple(part.to(batch.tokens.device) for part in state)
        reading = self.reader(batch.tokens, state)
        self.memory[self.training] = reading.state
        return reading

    def _of(self, reading: Reading, batch: StreamBatch) -> list[Prediction]:
        """Return the hidden vectors of a batch's predicted words with the output map.

        Vectors are in the order of ``places``, or of all targets if it is None.
        """
        hidden = reading.hidden.flatten(0, 1)
        if batch.places is not None:
            hidden = hidden.index_select(0, batch.places)
        return [Prediction(hidden, self.reader.output.log_prob)]

    def begin(self, data: Any) -> None:
        """Read the weights of a model's folder, if the run names one."""
        if isinstance(self.network, HuggingFaceLanguageModel):
            self.network.read_start()

    def export_graph(self) -> ExportGraph:
        """Return the graph from words to next-word probabilities."""
        return language_model_graph(cast(Any, self.network))

    def training_step(self, batch: Any, batch_index: int) -> dict[str, Any]:
        """Run a training step and keep the batch's pace.

        :meth:`on_before_optimizer_step` scales the learning rate by it.
        """
        self._pace = batch.pace
        return super().training_step(batch, batch_index)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Multiply the step's learning rate by the last batch's pace, in place.

        The schedule resets it.
        """
        if self._pace != 1.0:
            for group in optimizer.param_groups:
                group["lr"] *= self._pace

    def validate(self, batches: Iterable[StreamBatch]) -> dict[str, float]:
        """Return the mean ``loss`` over words, in nats, and ``perplexity`` = exp(loss).

        The state of validation is dropped at the end.
        """
        scores = super().validate(batches)
        self.memory.pop(False, None)
        return {**scores, "perplexity": perplexity(scores["loss"])}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the training states of all processes to the checkpoint, in place.

        Each is ``[processes, batch, …]``; there is none before the first step.
        """
        state = self.memory.get(True, ())
        world = self.trainer.world_size if self.trainer is not None else 1
        gathered = [part.detach()[None] if world == 1 else self.trainer.strategy.all_gather(part) for part in state]
        checkpoint[MEMORY] = [part.to("cpu") for part in gathered]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore this process's training state.

        If there is none, or the number of processes changed, all start from empty states.
        """
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer is not None else (0, 1)
        state = checkpoint.get(MEMORY)
        if state and all(len(part) == world for part in state):
            self.memory[True] = tuple(part[rank].clone() for part in state)


def perplexity(loss: float) -> float:
    """Return exp(loss); infinity on overflow."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def build_module(config: LanguageModelExperiment, vocabulary: int) -> LanguageModelModule:
    """Build the module of an experiment with ``vocabulary`` entries.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not match. Or the output is tied to a table and has a structure of
            its own.
    """
    training, embedding, output = config.training, config.embedding, config.output.arguments
    own_output = output not in (embedding.arguments, LayerConfig().arguments)
    if config.model.tie and embedding.structure in STRUCTURES and own_output:
        what = f"the output map is tied to the embedding, whose structure is {embedding.structure!r}"
        raise PhmrunError(what, where="output.structure", hint="Leave output out, or set model.tie=false.")
    network = build_network("lm", config, vocabulary)
    return LanguageModelModule(
        network,
        optimizer_from(training.optimizer),
        schedule_from(training, getattr(network, "width", config.model.width)),  # a folder's network has its own
        activation=training.activation_penalty,
        change=training.change_penalty,
    )


class NextWord(GraphFunction):
    """Language model as a function of ``[batch, length]`` tokens, from the beginning of a text."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the log-probabilities of the next words, ``[batch, length, vocabulary]``."""
        return self.network.output.log_prob(self.network(tokens).outputs)


class NextWordAndState(GraphFunction):
    """LSTM language model as a function of one word ``[batch]`` and a state."""

    def forward(self, word: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return log-probabilities ``[batch, vocabulary]``, then the new state.

        The state is that after the word, a tensor for each part.
        """
        reading = self.network(word.unsqueeze(1), state)
        return self.network.output.log_prob(reading.outputs[:, 0]), *reading.state


def language_model_graph(network: LSTMLanguageModel | TransformerXL | HuggingFaceLanguageModel) -> ExportGraph:
    """Return the export graph: words to log-probabilities of the next words.

    A Transformer-XL reads a whole text, and so does a network of transformers, which is marked as untraceable. An LSTM
    reads a single word and a state, since its graph over a text would grow with the text. Its state before the first
    word is zero. The network is folded in a copy. Examples are random with seed 1.
    """
    plain: Any = network.unstructured() if isinstance(network, HuggingFaceLanguageModel) else folded(network)
    generator = torch.Generator().manual_seed(1)
    words, outputs = network.output.n_classes, ["log_probabilities"]
    if not isinstance(plain, HuggingFaceLanguageModel):
        plain.embedding = table_of(plain.embedding)
    if not isinstance(network, LSTMLanguageModel):
        plain.memory = 0  # the state after the text is no output
        return ExportGraph(
            plain,
            NextWord(plain).eval(),
            NextWord(cast(Any, network)).eval(),
            inputs={"words": ("batch", "length")},
            outputs=outputs,
            examples=[(torch.randint(words, size, generator=generator),) for size in ((2, 7), (1, 1), (3, 21))],
            untraceable=OWN_FORMATS if isinstance(network, HuggingFaceLanguageModel) else "",
            trained=network,
        )
    lstms = enumerate(cast(list[LSTM], network.context))
    sizes = {f"{kind}{number}": lstm.hidden_size for number, lstm in lstms for kind in "hc"}
    examples = []
    for batch in (2, 1, 5):
        word = torch.randint(words, (batch,), generator=generator)
        examples.append((word, *(torch.randn(batch, size, generator=generator) for size in sizes.values())))
    return ExportGraph(
        plain,
        NextWordAndState(plain).eval(),
        NextWordAndState(network).eval(),
        inputs={"word": ("batch",), **{name: ("batch", size) for name, size in sizes.items()}},
        outputs=[*outputs, *(f"{name}_after" for name in sizes)],
        examples=examples,
        trained=network,
    )
