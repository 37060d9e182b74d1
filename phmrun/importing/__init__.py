"""Import of third-party checkpoints as runs."""
