"""One thread, and the surroundings of all tests that train."""

import torch
from surroundings import _quiet_surroundings, prepared_corpora

__all__ = ["_quiet_surroundings", "prepared_corpora"]

torch.set_num_threads(1)
