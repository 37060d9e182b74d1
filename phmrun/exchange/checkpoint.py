"""Reader of Hugging Face checkpoint directories.

It never executes code from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular, sha256_of

WEIGHTS = "model.safetensors"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
SAFELY = "AutoModelForSeq2SeqLM.from_pretrained(DIR).save_pretrained(OUT, safe_serialization=True)"
WRITTEN = "Give a directory that save_pretrained has written."


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint directory."""

    directory: Path
    config: Mapping[str, Any]  # its `config.json`
    tensors: Mapping[str, Tensor]  # its weights by name
    sha256: str  # checksum of the file of weights

    def tensor(self, *names: str, shape: tuple[int, ...] | None = None) -> Tensor:
        """Return the tensor of the first name that exists, as float32.

        ``shape`` is checked unless None.

        Raises:
            PhmrunError: (exit 3) None of the names exists, or the tensor has another shape.
        """
        tensor = next((self.tensors[name] for name in names if name in self.tensors), None)
        if tensor is None:
            raise _damaged(self.directory / WEIGHTS, f"it holds no {names[0]}")
        if shape is not None and tuple(tensor.shape) != shape:
            raise _damaged(self.directory / WEIGHTS, f"{names[0]} is {list(tensor.shape)}, not {list(shape)}")
        return tensor.float()

    def file(self, name: str) -> bytes:
        """Return the content of another file in the directory.

        Raises:
            PhmrunError: (exit 3) The file is missing.
        """
        path = self.directory / name
        if not path.is_file():
            raise PhmrunError(f"the checkpoint has no {name}", where=str(self.directory), code=ExitCode.DATA)
        return path.read_bytes()

    def optional(self, name: str) -> Mapping[str, Any]:
        """Return the content of another JSON file in the directory.

        Empty if the file is missing, damaged, or no JSON object.
        """
        try:
            content = parse_json(read_regular(self.directory / name))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

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
        PhmrunError: (exit 3) The directory or a file is missing or damaged, or the weights are pickles. Pickles can
            execute code when they are read, and are never opened.
    """
    if not directory.is_dir():
        raise PhmrunError("no such directory", where=str(directory), code=ExitCode.DATA)
    weights = directory / WEIGHTS
    # Checked before config.json, so that the message names pickled or sharded weights first.
    if not weights.is_file():
        raise _without_weights(directory)
    path = directory / "config.json"
    if not path.is_file():
        raise PhmrunError(f"there is no {path.name} here", where=str(directory), hint=WRITTEN, code=ExitCode.DATA)
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


def _without_weights(directory: Path) -> PhmrunError:
    """Return the error for a directory without ``model.safetensors``.

    The hint has the safe way to make one. Sharded weights, pickles and no weights have their own messages.
    """
    pickles = sorted(path.name for pattern in PICKLES for path in directory.glob(pattern))
    if (directory / f"{WEIGHTS}.index.json").is_file():
        what, hint = "the weights are in several files, which is not supported", f"Save them as one: {SAFELY}"
    elif pickles:
        what = f"{pickles[0]} is a pickle, which can execute code when it is read; it was not opened"
        hint = f"If you trust it, convert a Hugging Face checkpoint: {SAFELY}. "
        hint += "Convert fairseq and JoeyNMT checkpoints with their own tools first."
    else:
        what, hint = f"there is no {WEIGHTS} here", WRITTEN
    return PhmrunError(what, where=str(directory), hint=hint, code=ExitCode.DATA)


def _damaged(path: Path, reason: str) -> PhmrunError:
    """Return the error (exit 3) for a damaged file of the checkpoint."""
    return PhmrunError(f"the checkpoint is damaged: {reason}", where=str(path), code=ExitCode.DATA)
