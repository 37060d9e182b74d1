"""Text in, text out: translation and style transfer."""

from phmrun.task import Format


def aligned(source: str, target: str) -> Format:
    """The format of two files, line by line, with a sample of each."""
    says = "two files a split, one sentence a line; line k of the one answers line k of the other"
    return Format("aligned text", says, {"train.source": source, "train.target": target})
