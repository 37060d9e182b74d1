"""The surroundings of all tests that train."""

from surroundings import _quiet_surroundings, prepared_corpora

__all__ = ["_quiet_surroundings", "prepared_corpora"]
