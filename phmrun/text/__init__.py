"""Text to token ids: readers, vocabularies, memory-mapped token stores, length-bucketed batches."""

from phmrun.text.batches import Batch, BatchPlan, BatchStream, batches, evaluation_batches
from phmrun.text.lines import read_lines, read_parallel
from phmrun.text.store import ParallelStore, TokenStore, TokenStoreWriter
from phmrun.text.vocabularies import Vocabularies, load_vocabulary, train_vocabulary
from phmrun.text.vocabulary import BOS, EOS, KINDS, PAD, UNK, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "KINDS",
    "PAD",
    "UNK",
    "Batch",
    "BatchPlan",
    "BatchStream",
    "ParallelStore",
    "TokenStore",
    "TokenStoreWriter",
    "Vocabularies",
    "Vocabulary",
    "batches",
    "evaluation_batches",
    "load_vocabulary",
    "read_lines",
    "read_parallel",
    "train_vocabulary",
]
