"""My network: the mean of the words' vectors, one map, and the classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from phmrun.layers import Embedding, Linear
from phmrun.models.sentences import ClassScores, Sentences, pooled
from phmrun.registry import networks


class MyNetwork(nn.Module):
    """Logits of the classes from the mean of the words' vectors.

    Args:
        options: Section ``model`` of the configuration.
        sizes: Numbers of words and of classes.
        structures: Structure and options of each scope: layer, embedding, output.
    """

    def __init__(self, options: Any, sizes: Sequence[int], structures: Mapping[str, Any]) -> None:
        super().__init__()
        words, classes = sizes
        self.embedding = Embedding(words, options.width, **structures["embedding"])
        self.map = Linear(options.width, options.width, **structures["layer"])
        self.output = ClassScores(options.width, classes, **structures["output"])

    def forward(self, sentences: Sentences) -> Tensor:
        """Logits ``[batch, classes]``."""
        words = pooled(self.embedding(sentences.tokens), sentences.lengths, "mean")
        logits: Tensor = self.output(torch.relu(self.map(words)))
        return logits


networks("sva").add("my-network", MyNetwork)
