"""Configuration of neural machine translation."""

from typing import Literal

from pydantic import Field

from phmrun.families.sequence_to_sequence.config import SequenceToSequenceExperiment


class TranslationExperiment(SequenceToSequenceExperiment):
    """Configuration of the task nmt."""

    task: Literal["nmt"] = Field("nmt", description="Neural machine translation.")
