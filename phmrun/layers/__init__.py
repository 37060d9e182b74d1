"""Weight structures and the modules that are built over any of them."""

from phmrun.config.options import options_of
from phmrun.layers.adapters import Adapter, merge
from phmrun.layers.adaptive import AdaptiveInput, AdaptiveSoftmax
from phmrun.layers.attention import MultiheadAttention
from phmrun.layers.biaffine import Biaffine
from phmrun.layers.conversion import convert
from phmrun.layers.define import HGT, DeFINE
from phmrun.layers.embedding import Embedding, build_embedding, register_embedding
from phmrun.layers.factored_file import load, save
from phmrun.layers.inference import folded, for_inference
from phmrun.layers.linear import FeedForward, Linear
from phmrun.layers.lstm import LSTM
from phmrun.layers.network import tied_output
from phmrun.layers.pretrained import from_pretrained, save_pretrained
from phmrun.layers.report import ConversionReport, conversion_report
from phmrun.layers.structure import Structure, build_structure, register

__all__ = [
    "HGT",
    "LSTM",
    "Adapter",
    "AdaptiveInput",
    "AdaptiveSoftmax",
    "Biaffine",
    "ConversionReport",
    "DeFINE",
    "Embedding",
    "FeedForward",
    "Linear",
    "MultiheadAttention",
    "Structure",
    "build_embedding",
    "build_structure",
    "conversion_report",
    "convert",
    "folded",
    "for_inference",
    "from_pretrained",
    "load",
    "merge",
    "options_of",
    "register",
    "register_embedding",
    "save",
    "save_pretrained",
    "tied_output",
]
