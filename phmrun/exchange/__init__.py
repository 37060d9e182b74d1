"""Exchange of models with other tools: import, export, and compression to a structure."""

from pathlib import Path

from phmrun.errors import PhmrunError


def check_out(path: Path, content: str) -> None:
    """Check that a directory can be written to ``path``: it is missing, empty, or an earlier export.

    Args:
        path: The directory.
        content: Name of a file that an export has.

    Raises:
        PhmrunError: (exit 2) Other files would be overwritten.
    """
    if path.exists() and not (path / content).is_file() and any(path.iterdir() if path.is_dir() else [path]):
        raise PhmrunError("other files would be overwritten", where=str(path), hint="Give an empty folder with --out.")
