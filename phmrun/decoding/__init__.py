"""Decoding: beam search, greedy search, batched translation of files, and spanning trees."""
