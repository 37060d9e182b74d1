"""Sequence-to-sequence tasks: translation and style transfer."""

from phmrun.task import Format


def aligned(source: str, target: str) -> Format:
    """Return the format of two line-aligned files, with a sample of each."""
    description = "two files a split, one sentence a line; line k of the one answers line k of the other"
    return Format("aligned text", description, {"train.source": source, "train.target": target})
