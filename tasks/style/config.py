"""The configuration of style transfer."""

from typing import Literal

from pydantic import Field

from phmrun.families.sequence_to_sequence.config import ParallelDataConfig, SequenceToSequenceExperiment


class StyleDataConfig(ParallelDataConfig):
    """Which sentence pairs, in which direction, as which tokens."""

    source: str = Field("modern", min_length=1, description="Style transferred from.")
    target: str = Field("original", min_length=1, description="Style transferred into: modern, or original.")
    copies: int = Field(
        0,
        ge=0,
        description="How often training also sees each target sentence as its own source, which teaches copying "
        "(Currey et al. 2017).",
    )


class StyleExperiment(SequenceToSequenceExperiment):
    """Configuration of the task style."""

    task: Literal["style"] = Field("style", description="Style transfer.")
    data: StyleDataConfig = Field(StyleDataConfig(), description="Sentence pairs and their tokens.")
