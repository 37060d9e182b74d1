"""A run as one file: what reads as a document, and the weights if they are to stay."""

import os
import tarfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from phmrun.errors import PhmrunError
from phmrun.files import replacing
from phmrun.ledger.lock import LOCK
from phmrun.ledger.run import Run

_PASSING = (LOCK, "wandb")
"""What an archive leaves out: the lock, and a mirror that `phmrun sync` makes again."""


def archive(runs: Sequence[Run], path: Path, *, checkpoints: bool = True) -> int:
    """Packs run directories into one compressed file, whole or not at all.

    Unpacked anywhere (``tar -xzf``), they are runs as before.

    Args:
        runs: The runs; their directories must have different names.
        path: The file, ending in ``.tar.gz``; one that is there is replaced.
        checkpoints: Whether the checkpoints are packed too.

    Returns:
        The size of the file in bytes.

    Raises:
        PhmrunError: The name does not end so, two runs have one name, or a living process holds a run.
    """
    if not path.name.endswith((".tar.gz", ".tgz")):
        raise PhmrunError(f"{path.name!r} is no name of an archive", where="--to", valid=(".tar.gz", ".tgz"))
    if len({run.id for run in runs}) < len(runs):
        raise PhmrunError("two of the runs have the same name", hint="Archive them into different files.")

    def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        below = Path(entry.name).parts[1:2]
        left_out = (*_PASSING, *(() if checkpoints else ("checkpoints",)))
        return None if below and (below[0] in left_out or below[0].startswith(".")) else entry

    with replacing(path) as temporary, tarfile.open(temporary, "w:gz") as packed:
        for run in runs:
            with run.lock() if os.access(run.path, os.W_OK) else nullcontext():
                packed.add(run.path, arcname=run.id, filter=kept)
    return path.stat().st_size
