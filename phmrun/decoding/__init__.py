"""Decoding: beam search, greedy search, batched translation of files, and spanning trees."""

from phmrun.decoding.beam import Hypothesis, beam_search, greedy_search, length_penalty
from phmrun.decoding.search import max_length, translate
from phmrun.decoding.spanning_tree import spanning_trees
from phmrun.decoding.step import StepDecoder
