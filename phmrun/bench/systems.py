"""Systems that a benchmark compares, with their timed calls: optimizer steps and decoding."""

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

NEVER = -1e9  # logit of an excluded token; finite, so that it can still end an output at its limit


class Sources(NamedTuple):
    """Sentences to decode together."""

    tokens: Tensor  # ``[batch, source]``, padded
    limits: list[int]  # maximum target tokens of each, EOS included
    exact: bool  # True: each output has exactly as many, so that all systems make the same steps


class System(Protocol):
    """System that can be trained."""

    network: nn.Module  # the trained module

    def loss(self, batch: Any) -> Tensor:
        """Return the training loss summed over the batch's units, differentiable."""


class Translating(Protocol):
    """System that translates."""

    def decode(self, sources: Sources, beam: int) -> object:
        """Decode the sentences with this beam.

        The caller ignores the result.
        """


class Model:
    """Model of ours, trained by its Lightning module.

    The module is moved to the device.
    """

    def __init__(self, module: TrainingModule, device: str) -> None:
        self.module = module.to(device)
        self.network: nn.Module = self.module
        self.device = device

    def loss(self, batch: Any) -> Tensor:
        """Return the module's training loss, summed over the batch's units."""
        return self.module.loss(batch).total


class Untrained(Model):
    """Model of ours with random weights, for training only."""


class Answering(Model):
    """Trained run of any task, which predicts as ``phmrun predict``."""

    def __init__(self, trained: TrainedModel, device: str) -> None:
        super().__init__(trained.module, device)
        self.trained = trained
        self.predictors: dict[int, Predictor] = {}

    def predictor(self, batch: int) -> Predictor:
        """Return the predictor with copies of the weights, built once per batch size."""
        if batch not in self.predictors:
            apart = replace(self.trained, module=deepcopy(self.module))
            self.predictors[batch] = apart.loaded("bench", batch_size=batch, device=self.device)
        return self.predictors[batch]


class Ours(Model):
    """Translation model of ours.

    It decodes with copies of its weights, unaffected by later training.

    Each call sets beam and batch size; those of ``search`` are ignored.
    """

    module: SequenceToSequenceModule

    def __init__(self, module: SequenceToSequenceModule, search: Search, device: str) -> None:
        super().__init__(module, device)
        self.search = search
        self.decoders: dict[tuple[Choice, Choice], IncrementalTransformer] = {}

    def parts(self, batch: int, beam: int) -> tuple[Choice, Choice]:
        """Return how decoder and encoder apply their weights at these sizes.

        ``batch`` and ``beam`` replace those of the search; see :meth:`Search.parts`.
        """
        return replace(self.search, batch=batch, beam=beam).parts()

    def decoder(self, batch: int, beam: int) -> IncrementalTransformer:
        """Return the network prepared for decoding, for a batch and beam size.

        Built once for each way to apply the weights, with the weights of that moment. It uses measured kernels if the
        search's ``kernels`` are "measured".
        """
        parts = self.parts(batch, beam)
        if parts not in self.decoders:
            self.decoders[parts] = IncrementalTransformer(self.module.network, PAD, *parts)
            self.decoders[parts].measured_kernels = self.search.kernels == "measured"
            self.decoders[parts].in_bfloat16 = self.search.quantization == "bfloat16"
        return self.decoders[parts]

    def decode(self, sources: Sources, beam: int) -> None:
        """Run beam or greedy search as ``phmrun eval``.

        The outputs are discarded. If ``sources.exact``, outputs end only at their limits.
        """
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
    """Model of a translation run in CTranslate2, for decoding only."""

    model: CTranslate2Model
    search: Search

    def decode(self, sources: Sources, beam: int) -> None:
        """Run the engine's search on token ids.

        The outputs are discarded. If ``sources.exact``, every output has at least as many tokens as the greatest limit.
        Padding and end tokens are removed from the sources.
        """
        rows = [[token for token in row if token not in (PAD, EOS)] for row in sources.tokens.tolist()]
        least = max(sources.limits) if sources.exact else 0
        self.model.search(rows, sources.limits, beam=beam, alpha=self.search.alpha, at_least=least)


class Endless:
    """Step decoder that never ends an output before its limit."""

    def __init__(self, decoder: IncrementalTransformer) -> None:
        self.start = decoder.start
        self.reorder = decoder.reorder
        self.select = decoder.select
        self._step = decoder.step

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Return the decoder's logits, with EOS set to ``NEVER``."""
        logits = self._step(tokens, state)
        logits[..., EOS] = NEVER
        return logits


@dataclass
class Training:
    """Optimizer steps over the first batches of a run's data.

    Each call reads the same batches and changes the weights. Precision "64" converts the network to double at once.

    Attributes:
        system: System to train.
        optimizer: Optimizer over its parameters.
        data: Data of the run.
        training: Section of the configuration: accumulation, clipping, precision.
        batches: Micro-batches per call.
        device: Device of the batches.
        units: Units of the last call.
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
        """Make the optimizer steps, and count their units in ``units``.

        Gradients are clipped if the config says so. A mixed precision runs under autocast.
        """
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
    """Return a function that predicts all lines and discards the predictions.

    The predictor is built at once.
    """
    predictor = system.predictor(batch)

    def answer() -> None:
        deque(predictor.predict(lines), maxlen=0)

    return answer


def decoding(system: Translating, batches: Sequence[Sources], beam: int) -> Callable[[], None]:
    """Return a function that decodes all batches in inference mode."""

    def decode() -> None:
        with torch.inference_mode():
            for batch in batches:
                system.decode(batch, beam)

    return decode
