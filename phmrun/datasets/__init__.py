"""Catalogue of datasets, their files on this machine, download and import.

Imports no torch.
"""

from phmrun.datasets.catalogue import CATALOGUE, Dataset, File, Part, Remote
from phmrun.datasets.locations import (
    SPLITS,
    Check,
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
