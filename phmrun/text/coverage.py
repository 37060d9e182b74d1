"""Share of unknown tokens in the text that a trained model reads."""

from collections.abc import Iterable
from dataclasses import dataclass

from phmrun.progress import note

MENTIONED = 0.01
"""Share of unknown tokens from which on it is said."""


@dataclass
class Coverage:
    """Counts of the tokens that a model has read.

    Attributes:
        tokens: Number of tokens, without those of beginning and end.
        unknown: Number of tokens that the vocabulary lacks.
    """

    tokens: int = 0
    unknown: int = 0

    def add(self, known: Iterable[bool]) -> None:
        """Count a line; ``known`` is True for each token that the vocabulary has."""
        answers = list(known)
        self.tokens += len(answers)
        self.unknown += answers.count(False)

    def note_unknown(self, source: str) -> None:
        """Print a note if at least 1 % of the tokens are unknown; ``source`` is the name of the text."""
        if self.unknown and self.unknown >= MENTIONED * self.tokens:
            share = f"{self.unknown / self.tokens:.1%} of the input's tokens"
            note(f"{source}: {share} are unknown to the vocabulary")
