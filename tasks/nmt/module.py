"""The Lightning module and the predictor of translation: those of every sequence-to-sequence task."""

from phmrun.families.sequence_to_sequence.module import build_sequence_to_sequence as build_module
from phmrun.families.sequence_to_sequence.predictor import build_translator as build_predictor

__all__ = ["build_module", "build_predictor"]
