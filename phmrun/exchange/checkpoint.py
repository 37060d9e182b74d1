"""Reader of Hugging Face checkpoint directories.

It never executes code from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError, data_error
from phmrun.files import sha256_of

WEIGHTS = "model.safetensors"
SAFELY = "AutoModelForSeq2SeqLM.from_pretrained(DIR).save_pretrained(OUT, safe_serialization=True)"


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint directory."""

    directory: Path
    config: Mapping[str, Any]  # its `config.json`
    tensors: Mapping[str, Tensor]  # its weights by name
    sha256: str  # checksum of the file of weights

    def tensor(self, *names: str, shape: tuple[int, ...]) -> Tensor:
        """Return the tensor of the first name that exists, as float32.

        Raises:
            PhmrunError: (exit 3) None of the names exists, or the tensor has another shape.
        """
        tensor = next((self.tensors[name] for name in names if name in self.tensors), None)
        if tensor is None:
            raise _damaged(self.directory / WEIGHTS, f"it holds no {names[0]}")
        if tuple(tensor.shape) != shape:
            raise _damaged(self.directory / WEIGHTS, f"{names[0]} is {list(tensor.shape)}, not {list(shape)}")
        return tensor.float()

    def file(self, name: str) -> bytes:
        """Return the content of another file in the directory.

        Raises:
            PhmrunError: (exit 3) The file is missing.
        """
        path = self.directory / name
        if not path.is_file():
            raise data_error(f"the checkpoint has no {name}", self.directory)
        return path.read_bytes()

    @property
    def source(self) -> str:
        """Name of the model: that of the directory.

        In a cache of the Hugging Face Hub it is the repository's, without its owner.
        """
        directory = self.directory.resolve()
        hub = directory.parent.parent.name if directory.parent.name == "snapshots" else ""
        return hub.rpartition("--")[2] if hub.startswith("models--") else directory.name


def read_checkpoint(directory: Path) -> Checkpoint:
    """Read ``config.json`` and ``model.safetensors`` of a directory.

    Raises:
        PhmrunError: (exit 3) A file is missing or damaged, or the weights are pickles or in several files. Pickles can
            execute code when they are read, and are never opened.
    """
    weights, path = directory / WEIGHTS, directory / "config.json"
    if not weights.is_file():
        what = f"there is no {WEIGHTS} here; other files of weights are not opened: a pickle can execute code"
        raise data_error(what, directory, f"Write it from a checkpoint that you trust: {SAFELY}")
    try:
        config = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(config, dict):
        raise _damaged(path, "it is not a JSON object")
    from safetensors import SafetensorError  # slow to import
    from safetensors.torch import load_file

    try:
        tensors = load_file(weights)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise _damaged(weights, str(error)) from error
    return Checkpoint(directory, config, tensors, sha256_of(weights))


def _damaged(path: Path, reason: str) -> PhmrunError:
    """Return the error (exit 3) for a damaged file of the checkpoint."""
    return data_error(f"the checkpoint is damaged: {reason}", path)
