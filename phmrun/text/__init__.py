"""Text to token ids: readers, vocabularies, memory-mapped token stores, length-bucketed batches."""
