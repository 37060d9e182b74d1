"""Causal language models of Hugging Face's transformers as networks of the task."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.network import Structures
from phmrun.models.hugging_face import HuggingFaceNetwork, fresh_settings
from phmrun.models.model_folder import read_settings
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


class HuggingFaceLanguageModel(HuggingFaceNetwork):
    """Causal network of transformers, read from ``model.path`` or with fresh weights.

    Its state are the last ``memory`` tokens, which are read again before the next ones; 0: every text is read from its
    beginning alone, as in training; None: as many as fit, with their keys and values while all do.

    Args:
        options: Section of the configuration.
        sizes: Entries of the vocabulary.
        structures: Options of ``layer``, the maps of the blocks; of ``embedding``; of ``output``.

    Raises:
        PhmrunError: The folder cannot be read, or sizes and structures do not match.
    """

    options: ClassVar[type[LanguageModelOptions]] = LanguageModelOptions

    def __init__(self, options: LanguageModelOptions, sizes: Sequence[int], structures: Structures) -> None:
        if options.path is None:
            shape = (options.width, options.inner, options.layers, options.heads)
            settings = fresh_settings(options.family, sizes[0], shape, dropout=options.dropout, tie=options.tie)
        else:
            settings = read_settings(options.path, options.path_dropout)
        super().__init__(settings, structures, options.only, options.path)
        self.memory: int | None = 0
        self.output = Logits(sizes[0])

    def forward(self, tokens: Tensor, state: State | None = None) -> Reading:
        """Read ``tokens [batch, length]`` after those of ``state``; the vectors are the logits of the next tokens.

        Raises:
            PhmrunError: (exit 2) The segment is longer than the network's positions.
        """
        if tokens.shape[1] > self.positions:
            what = f"{tokens.shape[1]:,} tokens are more than the network's {self.positions:,} positions"
            raise PhmrunError(what, hint="Shorten the text, or set batch.length and decoding.length.")
        before, *cache = state or (tokens[:, :0], {})
        text = torch.cat([before, tokens], 1)
        if self.memory is None and text.shape[1] <= self.positions:  # nothing is forgotten: keys and values stay valid
            read = self.model(input_ids=tokens, use_cache=True, **cache[0])
            cached = {name: value for name, value in read.items() if name != "logits"}  # names differ by release
            return Reading(read.logits, read.logits, (text, cached))
        text = text[:, -self.positions :]
        logits = self.model(input_ids=text, use_cache=False).logits[:, -tokens.shape[1] :]
        kept = text if self.memory is None else text[:, max(0, text.shape[1] - self.memory) :]
        return Reading(logits, logits, (kept,))

    def loss(self, logits: Tensor, targets: Tensor) -> CrossEntropy:
        """Return the loss summed over ``targets […]``, in nats."""
        loss = F.cross_entropy(logits, targets, reduction="sum")
        return CrossEntropy(loss, loss.detach())
