"""Configuration of style transfer."""

from typing import Literal

from pydantic import Field

from phmrun.families.sequence_to_sequence.config import ParallelDataConfig, SequenceToSequenceExperiment


class StyleDataConfig(ParallelDataConfig):
    """Sentence pairs, their direction and tokens."""

    source: str = Field("modern", min_length=1)
    """Source style: modern or original."""
    target: str = Field("original", min_length=1)
    """Target style: modern or original."""
    copies: int = Field(0, ge=0)
    """Number of copies of each target sentence in training with itself as the source, to teach copying (Currey et al.
    2017).
    """


class StyleExperiment(SequenceToSequenceExperiment):
    """Configuration of the task style."""

    task: Literal["style"] = "style"
    """Style transfer."""
    data: StyleDataConfig = StyleDataConfig()
    """Sentence pairs and their tokens."""
