"""Search for a model's best outputs: beam search, greedy search, and whole files in batches."""

from phmrun.decoding.beam import beam_search
from phmrun.decoding.greedy import greedy_search
from phmrun.decoding.hypothesis import Hypothesis, length_penalty
from phmrun.decoding.step import StepDecoder
from phmrun.decoding.translation import max_length, translate

__all__ = ["Hypothesis", "StepDecoder", "beam_search", "greedy_search", "length_penalty", "max_length", "translate"]
