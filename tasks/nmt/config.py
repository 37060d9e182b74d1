"""The configuration of neural machine translation."""

from typing import Literal

from pydantic import Field

from phmrun.config.sequences import SequenceExperiment


class TranslationExperiment(SequenceExperiment):
    """Configuration of the task nmt."""

    task: Literal["nmt"] = Field("nmt", description="Neural machine translation.")
