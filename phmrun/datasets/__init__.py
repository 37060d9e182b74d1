"""Catalogue of datasets, their files on this machine, download and import.

Imports no torch.
"""

from phmrun.datasets.catalogue import CATALOGUE, Catalogue, Dataset, File, Part, Remote
from phmrun.datasets.locations import (
    SPLITS,
    Check,
    Presence,
    by_hand,
    checksums,
    data_dir,
    dataset_dir,
    inspect,
    is_here,
    locate,
    own_files,
    own_texts,
    splits_here,
)

__all__ = [
    "CATALOGUE",
    "SPLITS",
    "Catalogue",
    "Check",
    "Dataset",
    "File",
    "Part",
    "Presence",
    "Remote",
    "by_hand",
    "checksums",
    "data_dir",
    "dataset_dir",
    "inspect",
    "is_here",
    "locate",
    "own_files",
    "own_texts",
    "splits_here",
]
