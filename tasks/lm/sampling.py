"""The next word by the probabilities of all: the most probable one, or a drawn one."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Choice:
    """How a word is chosen."""

    # "greedy": the most probable word; "sample": one drawn by its probability
    kind: Literal["greedy", "sample"] = "greedy"
    temperature: float = 1.0  # log-probabilities are divided by this before a word is drawn
    top_k: int = 0  # only the most probable words, so many, can be drawn; 0: all
    top_p: float = 1.0  # only the fewest words that have this share of the probability can be drawn (nucleus sampling)

    def choose(self, log_probs: Tensor, generator: torch.Generator) -> int:
        """One word by its number.

        Args:
            log_probs: Of all words, ``[words]``.
            generator: Where draws come from; on the CPU.
        """
        if self.kind == "greedy":
            return int(log_probs.argmax())
        return int(torch.multinomial(self.distribution(log_probs).cpu(), 1, generator=generator))

    def distribution(self, log_probs: Tensor) -> Tensor:
        """What a word is drawn from, ``[words]``, in double precision."""
        probabilities, order = (log_probs.double() / self.temperature).softmax(0).sort(descending=True, stable=True)
        before = probabilities.cumsum(0) - probabilities
        kept = before < self.top_p
        if self.top_k:
            kept[self.top_k :] = False
        chosen = torch.where(kept, probabilities, 0.0)
        return torch.zeros_like(chosen).scatter(0, order, chosen / chosen.sum())
