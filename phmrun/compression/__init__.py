"""Compression: replace a trained network's matrices by fitted structures."""
