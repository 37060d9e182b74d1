"""Models that a benchmark sets against each other, each with what it is timed at: an optimizer step, and decoding."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phmrun.config import TrainingConfig
from phmrun.decoding import beam_search
from phmrun.decoding.ctranslate2 import CTranslate2Model
from phmrun.engine.data import DataModule
from phmrun.engine.lightning import move_data_to_device
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import Predictor, TrainedModel
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.families.sequence_to_sequence.predictor import Search
from phmrun.layers.inference import Choice
from phmrun.models.incremental import DecoderState, IncrementalTransformer
from phmrun.text.vocabulary import BOS, EOS, PAD

NEVER = -1e9  # the logit of a token that is not to be chosen; finite, so that it can still end an output at its limit


class Sources(NamedTuple):
    """Sentences to decode together."""

    tokens: Tensor  # ``[batch, source]``, padded
    limits: list[int]  # the most target tokens of each, the end counted
    exact: bool  # whether each output has just so many, so that every system makes the same number of steps


class System(Protocol):
    """One of the models."""

    network: nn.Module  # what is trained

    def loss(self, batch: Any) -> Tensor:
        """The training loss summed over the batch's units, differentiable."""


class Translating(Protocol):
    """One that translates."""

    def decode(self, sources: Sources, beam: int) -> object:
        """Decodes the sentences."""


class Model:
    """A model of ours, as its Lightning module trains it."""

    def __init__(self, module: TrainingModule, device: str) -> None:
        self.module = module.to(device)
        self.network: nn.Module = self.module
        self.device = device

    def loss(self, batch: Any) -> Tensor:
        """The module's own."""
        return self.module.loss(batch).total


class Untrained(Model):
    """A model of ours with random weights, for training alone."""


class Answering(Model):
    """A run of any task, its weights loaded, which answers as ``phmrun predict`` does."""

    def __init__(self, trained: TrainedModel, device: str) -> None:
        super().__init__(trained.module, device)
        self.trained = trained
        self.predictors: dict[int, Predictor] = {}

    def predictor(self, batch: int) -> Predictor:
        """The run with copies of its weights, made once for each number of items at a time."""
        if batch not in self.predictors:
            apart = replace(self.trained, module=deepcopy(self.module))
            self.predictors[batch] = apart.loaded("bench", batch_size=batch, device=self.device)
        return self.predictors[batch]


class Ours(Model):
    """A model of ours that translates; it decodes with copies of its weights, whatever training does to them later.

    Beam and batch are those of each call, whatever ``search`` says.
    """

    module: SequenceToSequenceModule

    def __init__(self, module: SequenceToSequenceModule, search: Search, device: str) -> None:
        super().__init__(module, device)
        self.search = search
        self.decoders: dict[tuple[Choice, Choice], IncrementalTransformer] = {}

    def parts(self, batch: int, beam: int) -> tuple[Choice, Choice]:
        """How decoder and encoder apply their weights."""
        return replace(self.search, batch=batch, beam=beam).parts()

    def decoder(self, batch: int, beam: int) -> IncrementalTransformer:
        """The network laid out for decoding, once for each way to apply the weights."""
        parts = self.parts(batch, beam)
        if parts not in self.decoders:
            self.decoders[parts] = IncrementalTransformer(self.module.network, PAD, *parts)
            self.decoders[parts].measured_kernels = self.search.kernels == "measured"
        return self.decoders[parts]

    def decode(self, sources: Sources, beam: int) -> None:
        """Beam or greedy search, as ``phmrun eval`` does it."""
        decoder = self.decoder(len(sources.limits), beam)
        beam_search(
            Endless(decoder) if sources.exact else decoder,
            sources.tokens,
            beam=beam,
            alpha=self.search.alpha,
            penalty=self.search.penalty,
            bos=BOS,
            eos=EOS,
            pad=PAD,
            max_lengths=sources.limits,
        )


@dataclass(frozen=True)
class Converted:
    """A translating run's model in the engine CTranslate2, which decodes and does not train."""

    model: CTranslate2Model
    search: Search

    def decode(self, sources: Sources, beam: int) -> None:
        """The engine's search, from token numbers to token numbers."""
        rows = [[token for token in row if token not in (PAD, EOS)] for row in sources.tokens.tolist()]
        least = max(sources.limits) if sources.exact else 0
        self.model.search(rows, sources.limits, beam=beam, alpha=self.search.alpha, at_least=least)


class Endless:
    """A step decoder that never ends an output before its limit."""

    def __init__(self, decoder: IncrementalTransformer) -> None:
        self.start = decoder.start
        self.reorder = decoder.reorder
        self.select = decoder.select
        self._step = decoder.step

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """The decoder's logits but for the end's."""
        logits = self._step(tokens, state)
        logits[..., EOS] = NEVER
        return logits


@dataclass
class Training:
    """Optimizer steps over the first batches of a run's stream, as training makes them; each call makes the same ones.

    The optimizer is over the parameters of the system, ``batches`` is the number of micro-batches per call.
    """

    system: System
    optimizer: Optimizer
    data: DataModule
    training: TrainingConfig
    batches: int
    device: str
    units: int = 0

    def __post_init__(self) -> None:
        if self.training.precision == "64":
            self.system.network.double()

    def __call__(self) -> None:
        """Makes the steps, and counts their units in ``units``."""
        self.units = 0
        network = self.system.network.train()
        mixed = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(self.training.precision)
        precision = torch.autocast(torch.device(self.device).type, mixed) if mixed else nullcontext()
        for number, batch in enumerate(islice(self.data.train_dataloader(), self.batches), start=1):
            self.units += batch.units
            with precision:
                loss = self.system.loss(move_data_to_device(batch, torch.device(self.device)))
            (loss / batch.window_units).backward()
            if number % self.training.accumulate == 0:
                if self.training.clip:
                    nn.utils.clip_grad_norm_(network.parameters(), self.training.clip)
                self.optimizer.step()
                self.optimizer.zero_grad()


def answering(system: Answering, lines: Sequence[str], batch: int) -> Callable[[], None]:
    """What answers to all lines."""
    predictor = system.predictor(batch)

    def answer() -> None:
        deque(predictor.predict(lines), maxlen=0)

    return answer


def decoding(system: Translating, batches: Sequence[Sources], beam: int) -> Callable[[], None]:
    """What decodes all batches."""

    def decode() -> None:
        with torch.inference_mode():
            for batch in batches:
                system.decode(batch, beam)

    return decode
