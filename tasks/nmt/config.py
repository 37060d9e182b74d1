"""Configuration of neural machine translation."""

from typing import Literal

from phmrun.families.sequence_to_sequence.config import SequenceToSequenceExperiment


class TranslationExperiment(SequenceToSequenceExperiment):
    """Configuration of the task nmt."""

    task: Literal["nmt"] = "nmt"
    """Neural machine translation."""
