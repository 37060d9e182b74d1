"""Checkpoints of a run: written atomically, loaded without executing code.

``last.ckpt`` has everything for exact resume; ``best.ckpt`` and ``step-<n>.ckpt`` have the weights.
"""

import hashlib
import io
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.files import disk_errors, replacing

LAST, BEST = "last.ckpt", "best.ckpt"


def write_checkpoint(path: Path, content: dict[str, Any], before_renaming: Callable[[], None] | None = None) -> None:
    """Write a checkpoint atomically, in torch's format.

    Its archive has a CRC-32 of each tensor. A missing directory is created.

    Args:
        path: Path of the file.
        content: Content of the checkpoint.
        before_renaming: Called when the file is complete; may raise to keep the previous checkpoint.

    Raises:
        PhmrunError: (exit 4) The disk is full or cannot be written, or a value could not be loaded again; the previous
            checkpoint is unchanged.
    """
    hint = "The same command then continues from the last checkpoint."
    full = disk_errors(ExitCode.TRAINING, hint, needed=_bytes(content))
    try:
        with full, replacing(path, before_renaming) as temporary:
            with temporary.open("wb") as file:
                try:
                    torch.save(content, file)
                except RuntimeError:  # torch hides the reason; writing by Python raises it
                    whole = io.BytesIO()
                    torch.save(content, whole)
                    file.seek(0)
                    file.truncate()
                    file.write(whole.getvalue())
            torch.load(temporary, weights_only=True, mmap=True)
            if not all(isinstance(weight, Tensor) for weight in content.get("state_dict", {}).values()):
                raise TypeError("torch's get_extra_state gave a value that is no tensor")
    except (pickle.PickleError, AttributeError, TypeError) as error:
        what = f"training could not go on from this checkpoint: {next(_odd_values(content), error)}"
        hint = "State may hold numbers, texts, tensors, lists and dictionaries; change the plug-in."
        raise PhmrunError(what, where=path, hint=hint, code=ExitCode.TRAINING) from error


def _odd_values(content: Any, place: str = "") -> Iterator[str]:
    """Yield places and types of values that are no number, text, tensor or container of such."""
    if isinstance(content, Mapping | list | tuple):
        for key, value in content.items() if isinstance(content, Mapping) else enumerate(content):
            yield from _odd_values(value, f"{place}/{key}")
    elif not isinstance(content, int | float | str | bytes | Tensor | None):
        yield f"{place[1:]} is {type(content).__name__}"


def _bytes(content: Any) -> int:
    """Return the bytes of all tensors in nested mappings, lists and tuples.

    Other values count 0.
    """
    if isinstance(content, Tensor):
        return content.nbytes
    if isinstance(content, Mapping):
        return sum(_bytes(item) for item in content.values())
    return sum(_bytes(item) for item in content) if isinstance(content, list | tuple) else 0


def diverged(what: str, step: int) -> PhmrunError:
    """Return the error (exit 4) for a training that diverged (NaN or infinity).

    Its message is ``what`` with the optimizer step.
    """
    hint = (
        "Lower the learning rate or lengthen its warm-up, clip the gradient "
        "(--set training.clip=1.0), or train in full precision (--precision 32)."
    )
    return PhmrunError(f"{what} at optimizer step {step}", hint=hint, code=ExitCode.TRAINING)


def save_start(directory: Path, module: nn.Module) -> None:
    """Write the weights of an untrained module as ``last.ckpt`` of step 0, atomically.

    It has "state_dict" and "global_step" alone.
    """
    write_checkpoint(directory / LAST, {"state_dict": module.state_dict(), "global_step": 0})


def step_checkpoints(directory: Path) -> list[Path]:
    """Return the files ``step-*.ckpt`` of a directory, oldest first."""
    return sorted(directory.glob("step-*.ckpt"))


def remove_after(directory: Path, step: int) -> None:
    """Remove the files ``step-<n>.ckpt`` of later steps than ``step``.

    Temporary files of interrupted writes (``.*.tmp``) are removed, too.
    """
    for path in step_checkpoints(directory):
        if int(path.stem.removeprefix("step-")) > step:
            path.unlink(missing_ok=True)
    for path in directory.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def adopt(other: Path, directory: Path) -> None:
    """Copy another run's checkpoints from the directory ``other`` to ``directory``.

    They are weights for averaging, ``best.ckpt`` if there is one, and ``last.ckpt``, which is copied last. Each copy is
    atomic, and replaces a file of the same name. Patience begins anew.

    Raises:
        PhmrunError: (exit 3) The other run's last checkpoint is missing or damaged.
    """
    checkpoint = load_checkpoint(other / LAST)
    for path in (*step_checkpoints(other), other / BEST):
        if path.is_file():
            with replacing(directory / path.name) as temporary:
                shutil.copyfile(path, temporary)
    for state in checkpoint.get("callbacks", {}).values():
        state |= {"waited": 0} if "waited" in state else {}
    write_checkpoint(directory / LAST, checkpoint)  # marks the end of copying


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint on the CPU, without executing code.

    The checksums of its archive are checked. Tensors are mapped from the file, so it must not change while they are
    used.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged, or no dictionary.
    """
    if not path.is_file():
        hint = "A run's own are --checkpoint last and, after a validation, best; another is named by its path."
        raise data_error("there is no such checkpoint", path, hint)
    try:
        # torch does not check the archive's checksums, so it would not notice a flipped bit.
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        reason = str(error).partition(". ")[0]
        raise _unreadable(path, reason) from error
    if damaged is not None:
        raise _unreadable(path, f"the checksum of {damaged.partition('/')[2]} is another")
    if not isinstance(checkpoint, dict):
        raise data_error("the file is no checkpoint of a run", path)
    return checkpoint


def _unreadable(path: Path, reason: str) -> PhmrunError:
    """Return the error (exit 3) for a checkpoint that cannot be read for ``reason``."""
    hint = "`phmrun train … --restart` trains anew; for what is trained, --checkpoint names another of the files."
    return data_error(f"the checkpoint cannot be read: {reason}", path, hint)


def weights_of(checkpoint: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint by name: its ``state_dict``.

    Raises:
        PhmrunError: (exit 3) "state_dict" is missing or empty, or has a name that is no text or a value that is no
            tensor.
    """
    weights = checkpoint.get("state_dict")
    if (
        not isinstance(weights, Mapping)
        or not weights
        or not all(isinstance(name, str) and isinstance(weight, Tensor) for name, weight in weights.items())
    ):
        raise data_error("the file holds no weights: it is no checkpoint of a run", path)
    return dict(weights)


def checksum_of(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 (hex) of weights on the CPU.

    It covers names, types, shapes and bits, in order of names.
    """
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        digest.update(weight.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def weights_checksums(directory: Path, names: Iterable[str] = (LAST, BEST)) -> dict[str, str]:
    """Return the SHA-256 of the weights in each checkpoint that a directory has, by name: see :func:`checksum_of`.

    Raises:
        PhmrunError: (exit 3) A file is damaged, or has no weights.
    """
    paths = {name: directory / name for name in names if (directory / name).is_file()}
    return {name: checksum_of(weights_of(load_checkpoint(path), path)) for name, path in paths.items()}


def load_weights(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Load weights into a module, in place; names must match exactly.

    ``path`` names their file in errors.

    Raises:
        PhmrunError: (exit 3) Names or shapes differ from the module's.
    """
    try:
        module.load_state_dict(weights)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        what = f"the checkpoint holds another network than this run's config: {str(error).splitlines()[-1].strip()}"
        raise data_error(what, path) from error


def averaged_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of several checkpoints' weights by name, in their own types.

    It is summed in double precision. Integers are those of the last checkpoint. Checkpoints should have the same names:
    every sum is divided by the number of all.

    Raises:
        PhmrunError: (exit 3) A checkpoint is damaged.
    """
    totals: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for path in paths:
        for name, weight in weights_of(load_checkpoint(path), path).items():
            kinds[name] = weight.dtype
            if not weight.is_floating_point():
                totals[name] = weight
                continue
            totals[name] = weight.double() + totals[name] if name in totals else weight.double()
    return {
        name: (total / len(paths)).to(kinds[name]) if total.is_floating_point() else total
        for name, total in totals.items()
    }
