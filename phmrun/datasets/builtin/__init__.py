"""Built-in corpora: data that come with phmrun, described in :file:`README.md` beside this file.

A corpus is a folder here, each of its files compressed on its own; ``SHA256SUMS`` has the checksums of their contents.
"""

import lzma
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from phmrun.errors import data_error
from phmrun.files import replacing, sha256_of

VERSIONS = {"agreement": "1-1", "inference": "1-1", "style": "1-1", "translation": "1-1", "treebank": "1-1"}
"""By corpus the version of its grammar and the seed that it was drawn with: part of the identity of every run on it."""


def unpack(corpus: str, cache: Path) -> Path:
    """Return the folder with a corpus's files, unpacked if necessary.

    It is ``builtin-<corpus>-<version>`` in ``cache``, the directory of prepared corpora. Files are checked on every
    call, and missing or changed ones written anew, each whole or not at all.

    Raises:
        PhmrunError: (exit 3) The installed data are damaged.
    """
    folder = cache / f"builtin-{corpus}-{VERSIONS[corpus]}"
    for name, checksum in checksums(corpus).items():
        path = folder / name
        if path.is_file() and sha256_of(path) == checksum:
            continue
        packed = files(__name__).joinpath(corpus, f"{name}.xz")
        try:
            content = lzma.decompress(packed.read_bytes())
        except (OSError, lzma.LZMAError):
            # which fails the checksum below, as any other damage does
            content = b""
        if sha256(content).hexdigest() != checksum:
            raise data_error("a built-in corpus is damaged", str(packed), "Install phmrun again.")
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    return folder


def checksums(corpus: str) -> dict[str, str]:
    """Return the SHA-256 of a corpus's files, by file name.

    They are those of the uncompressed contents, read from ``SHA256SUMS``, not computed. Empty for an unknown corpus.
    """
    rows = (row.split() for row in files(__name__).joinpath("SHA256SUMS").read_text(encoding="utf-8").splitlines())
    return {path.partition("/")[2]: checksum for checksum, path in rows if path.partition("/")[0] == corpus}
