"""The catalogue of datasets, where they are on this machine, and how they get there. Imports no torch."""

from phmrun.datasets.catalogue import CATALOGUE, Catalogue, Dataset, File, Remote
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
)

__all__ = [
    "CATALOGUE",
    "Catalogue",
    "Check",
    "Dataset",
    "File",
    "Presence",
    "Remote",
    "by_hand",
    "checksums",
    "data_dir",
    "dataset_dir",
    "inspect",
    "is_here",
    "locate",
]
