"""The catalogue of datasets, where they are on this machine, and how they get there. Imports no torch."""

from phmrun.datasets.catalogue import CATALOGUE, Catalogue
from phmrun.datasets.dataset import Dataset, File, Part, Remote
from phmrun.datasets.locations import (
    Check,
    Presence,
    by_hand,
    checksums,
    data_dir,
    dataset_dir,
    inspect,
    is_here,
    locate,
    splits_here,
)

__all__ = [
    "CATALOGUE",
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
    "splits_here",
]
