"""The user's own files, named one by split in a configuration."""

from collections.abc import Sequence
from pathlib import Path

from phmrun.errors import ExitCode, PhmrunError

SPLITS = ("train", "dev", "test")  # what a corpus is divided into: to learn from, to choose by, to score


def own_files(**given: Path | Sequence[Path | str] | None) -> dict[str, tuple[Path, ...]]:
    """The files of each split that has any.

    Args:
        **given: By split a file, several, or none: ``train=path, dev=path, test=None``.

    Raises:
        PhmrunError: (exit 3) One of them does not exist.
    """
    files = {
        split: (paths,) if isinstance(paths, Path) else tuple(map(Path, paths or ())) for split, paths in given.items()
    }
    for split, paths in files.items():
        for path in paths:
            if not path.is_file():
                raise PhmrunError(
                    f"the {split} file {'is a folder' if path.is_dir() else 'does not exist'}: {path}",
                    where=f"data.{split}",
                    hint="Name the files with --train, --dev and --test.",
                    code=ExitCode.DATA,
                )
    return {split: paths for split, paths in files.items() if paths}
