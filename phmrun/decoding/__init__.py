"""Search for a model's best outputs: beam search, greedy search, whole files in batches, and spanning trees."""

from phmrun.decoding.beam import beam_search
from phmrun.decoding.greedy import greedy_search
from phmrun.decoding.hypothesis import Hypothesis, length_penalty
from phmrun.decoding.spanning_tree import spanning_trees
from phmrun.decoding.step import StepDecoder
from phmrun.decoding.translation import max_length, translate

__all__ = [
    "Hypothesis",
    "StepDecoder",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "max_length",
    "spanning_trees",
    "translate",
]
