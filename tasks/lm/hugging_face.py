"""Causal language models of Hugging Face's transformers as networks of the task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.network import Structures
from phmrun.models.hugging_face import fresh_settings, network, read_settings
from phmrun.registry import STRUCTURES
from phmrun.tasks.lm.config import LanguageModelOptions
from phmrun.tasks.lm.language_model import Reading, State


class Logits(nn.Module):
    """Output of a network whose vectors are logits already."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.n_classes = tokens

    def log_prob(self, logits: Tensor) -> Tensor:
        """Return the log-probabilities of the tokens, ``[…, tokens]``, in nats."""
        return logits.log_softmax(-1)

    def nll(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return -log p(target) of each position in nats, in the shape of ``targets``."""
        return F.cross_entropy(logits, targets, reduction="none")


class HuggingFaceLanguageModel(nn.Module):
    """Causal network of transformers, read from ``model.path`` or with fresh weights.

    Its state are the last ``memory`` tokens, which are read again before the next ones; 0: every text is read from its
    beginning alone, as in training.

    Args:
        options: Section of the configuration.
        sizes: Entries of the vocabulary.
        structures: Options of ``layer``, the maps of the blocks; of ``embedding``; of ``output``.

    Raises:
        PhmrunError: The folder cannot be read, or sizes and structures do not match.
    """

    options: ClassVar[type[LanguageModelOptions]] = LanguageModelOptions

    def __init__(
        self, options: LanguageModelOptions, sizes: Sequence[int], structures: Structures = MappingProxyType({})
    ) -> None:
        super().__init__()
        if options.path is None:
            shape = (options.width, options.inner, options.layers, options.heads)
            settings = fresh_settings(options.family, sizes[0], shape, dropout=options.dropout, tie=options.tie)
        else:
            settings = read_settings(options.path)
        self.arguments = settings, structures, options.only
        self.folder: Path | None = options.path
        # Frozen matrices are in no checkpoint, so they are read whenever the network is built.
        self.has_frozen = self.folder is not None and any(map(_updates, structures.values()))
        meta = torch.get_default_device().type == "meta"
        self.model: Any = network(*self.arguments, folder=self.folder if self.has_frozen and not meta else None)
        self.positions: int = getattr(settings, "max_position_embeddings", None) or settings.n_positions
        self.memory = 0
        self.output = Logits(sizes[0])

    def read_start(self) -> None:
        """Read the weights of the folder in place, before a run's first step; without a folder, nothing is done.

        Structured matrices start at the nearest ones.
        """
        if self.folder is not None and not self.has_frozen:
            self.model.load_state_dict(network(*self.arguments, folder=self.folder).state_dict())

    def forward(self, tokens: Tensor, state: State | None = None) -> Reading:
        """Read ``tokens [batch, length]`` after those of ``state``; the vectors are the logits of the next tokens.

        Raises:
            PhmrunError: (exit 2) The segment is longer than the network's positions.
        """
        if tokens.shape[1] > self.positions:
            what = f"{tokens.shape[1]:,} tokens are more than the network's {self.positions:,} positions"
            raise PhmrunError(what, where="batch.length, decoding.length")
        before = state[0] if state else tokens[:, :0]
        before = before[:, max(0, before.shape[1] + tokens.shape[1] - self.positions) :]
        text = torch.cat([before, tokens], 1)
        logits = self.model(input_ids=text, use_cache=False).logits[:, before.shape[1] :]
        kept = text[:, text.shape[1] - min(self.memory, text.shape[1]) :]
        return Reading(logits, logits, (kept,))

    def loss(self, logits: Tensor, targets: Tensor) -> CrossEntropy:
        """Return the loss summed over ``targets […]``, in nats."""
        loss = F.cross_entropy(logits, targets, reduction="sum")
        return CrossEntropy(loss, loss.detach())


def _updates(layer: Mapping[str, Any]) -> bool:
    """Return True if a layer trains updates of frozen matrices."""
    options = dict(layer)
    updates: bool = STRUCTURES.get(options.pop("structure", "dense")).updates(**options)
    return updates
