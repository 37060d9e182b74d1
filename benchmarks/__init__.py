"""Measurements for the documentation, run from a checkout: ``python -m benchmarks.NAME --help``."""
