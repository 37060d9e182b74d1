"""Text files, compressed or not."""

import gzip
from pathlib import Path


def write(path: Path, content: bytes | str, *, compress: bool = False) -> Path:
    """Write text or bytes to a file, as gzip if asked for; return its path."""
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if compress else raw)
    return path
