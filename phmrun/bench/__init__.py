"""Benchmarks of layers and models against alternatives, interleaved in one process."""
