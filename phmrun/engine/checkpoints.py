"""Checkpoints of a run: written whole or not at all, loaded without executing anything.

``last.ckpt`` holds everything that exact resume needs; ``best.ckpt`` and ``step-<n>.ckpt`` hold the weights.
"""

import hashlib
import io
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import disk_errors, replacing

LAST, BEST = "last.ckpt", "best.ckpt"
LAYOUT = "layout"
"""The key of a checkpoint that tells what else it holds."""
_ESSENTIAL = {
    "global_step": "int",
    "state_dict": "dict",
    "loops/fit_loop": "dict",
    "callbacks/Randomness": "dict",
    "callbacks/Meter": "dict",
    "callbacks/Validation": "dict",
    "optimizer_states/0": "dict",
    "lr_schedulers/0": "dict",
}
"""What a checkpoint must hold for training to go on, where it does not tell itself: its release was an earlier one."""
_LONGEST_LIST = 64
"""Elements of a list up to which each has a place of its own in a layout."""


def write_checkpoint(path: Path, content: dict[str, Any], before_renaming: Callable[[], None] | None = None) -> None:
    """Writes a checkpoint, whole or not at all. The file holds a checksum of every tensor.

    Raises:
        PhmrunError: (exit 4) The disk is full, or cannot be written to; the checkpoint before is as it was.
    """
    hint = "The same command then continues from the last checkpoint."
    full = disk_errors(ExitCode.TRAINING, hint, needed=_bytes(content))
    with full, replacing(path, before_renaming) as temporary, temporary.open("wb") as file:
        try:
            torch.save(content, file)
        except RuntimeError:  # torch does not tell why it could not write; Python does
            whole = io.BytesIO()
            torch.save(content, whole)
            file.seek(0)
            file.truncate()
            file.write(whole.getvalue())


def _bytes(content: Any) -> int:
    """How much the tensors within some content take."""
    if isinstance(content, Tensor):
        return content.nbytes
    if isinstance(content, Mapping):
        return sum(_bytes(item) for item in content.values())
    return sum(_bytes(item) for item in content) if isinstance(content, list | tuple) else 0


def diverged(what: str, step: int) -> PhmrunError:
    """The error for a training that has left the numbers."""
    return PhmrunError(
        f"{what} at optimizer step {step}",
        hint="Lower the learning rate or lengthen its warm-up, clip the gradient "
        "(--set training.clip=1.0), or train in full precision (--precision 32).",
        code=ExitCode.TRAINING,
    )


def save_start(directory: Path, module: nn.Module) -> None:
    """Writes the weights of a run that is not trained, as the last of its checkpoints."""
    with replacing(directory / LAST) as temporary:
        torch.save({"state_dict": module.state_dict(), "global_step": 0}, temporary)


def step_checkpoints(directory: Path) -> list[Path]:
    """The weights kept for averaging, oldest first."""
    return sorted(directory.glob("step-*.ckpt"))


def remove_after(directory: Path, step: int) -> None:
    """Removes what a killed process left over: weights of later steps than ``step``, and half of a file."""
    for path in step_checkpoints(directory):
        if int(path.stem.removeprefix("step-")) > step:
            path.unlink(missing_ok=True)
    for path in directory.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def adopt(other: Path, directory: Path) -> None:
    """Copies another run's checkpoints into ``directory``, from where training goes on as from its own.

    Raises:
        PhmrunError: The other run has no checkpoint, or it is damaged.
    """
    load_checkpoint(other / LAST)
    for path in (*step_checkpoints(other), other / BEST, other / LAST):  # once the last is there, all are
        if path.is_file():
            with replacing(directory / path.name) as temporary:
                shutil.copyfile(path, temporary)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint's contents, on the CPU, without executing anything in it, once all its checksums were found right.

    Raises:
        PhmrunError: The file is missing or damaged.
    """
    if not path.is_file():
        raise PhmrunError(
            "there is no such checkpoint", where=str(path), hint="Train the run first.", code=ExitCode.DATA
        )
    try:
        # torch checks no checksums, and maps into memory: a bit that has flipped would go unseen.
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        reason = str(error).partition(". ")[0]
        raise _unreadable(path, reason) from error
    if damaged is not None:
        raise _unreadable(path, f"the checksum of {damaged.partition('/')[2]} is another")
    if not isinstance(checkpoint, dict):
        raise PhmrunError("the file is no checkpoint of a run", where=str(path), code=ExitCode.DATA)
    return checkpoint


def _unreadable(path: Path, reason: str) -> PhmrunError:
    return PhmrunError(
        f"the checkpoint cannot be read: {reason}",
        where=str(path),
        hint="`phmrun train … --restart` trains anew; for what is trained, --checkpoint names another of the files.",
        code=ExitCode.DATA,
    )


def layout(content: Any, place: str = "") -> dict[str, str]:
    """The places within a checkpoint, and the kind of what stands there."""
    if not isinstance(content, Mapping | list | tuple):
        return {}
    named = content.items() if isinstance(content, Mapping) else enumerate(content[: _LONGEST_LIST + 1])
    found: dict[str, str] = {}
    for name, value in () if len(content) > _LONGEST_LIST and not isinstance(content, Mapping) else named:
        known = {Mapping: "dict", list | tuple: "list", Tensor: "tensor"}
        kind = next((name for types, name in known.items() if isinstance(value, types)), type(value).__name__)
        found |= {f"{place}{name}": kind, **layout(value, f"{place}{name}/")}
    return found


def require_whole(checkpoint: Mapping[str, Any], path: Path) -> None:
    """Refuses a checkpoint that lacks a part without which training would go on otherwise than it would have.

    Raises:
        PhmrunError: (exit 3) Naming the first part that is missing, or of another kind than when it was written.
    """
    told, found = checkpoint.get(LAYOUT), layout(checkpoint)
    for place, kind in (told if isinstance(told, Mapping) else _ESSENTIAL).items():
        if found.get(place) != kind:
            lacks = "lacks" if place not in found else f"has {found[place]} instead of {kind} as"
            raise PhmrunError(
                f"training cannot go on from this checkpoint: it {lacks} {place}",
                where=str(path),
                hint="Put a whole one in its place, or train anew: phmrun train … --restart.",
                code=ExitCode.DATA,
            )


def weights_of(checkpoint: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """The weights in a checkpoint.

    Raises:
        PhmrunError: (exit 3) There are none: the file is no checkpoint of a run.
    """
    weights = checkpoint.get("state_dict")
    if (
        not isinstance(weights, Mapping)
        or not weights
        or not all(isinstance(name, str) and isinstance(weight, Tensor) for name, weight in weights.items())
    ):
        raise PhmrunError(
            "the file holds no weights: it is no checkpoint of a run", where=str(path), code=ExitCode.DATA
        )
    return dict(weights)


def weights_checksum(path: Path) -> str:
    """SHA-256 of a checkpoint's weights: of names, kinds, shapes and bits, whatever else the file holds."""
    found = hashlib.sha256()
    for name, weight in sorted(weights_of(load_checkpoint(path), path).items()):
        found.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        found.update(weight.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def load_weights(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Gives a module its weights.

    Raises:
        PhmrunError: (exit 3) They are another network's.
    """
    try:
        module.load_state_dict(weights)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise PhmrunError(
            f"the checkpoint holds another network than this run's config: {str(error).splitlines()[-1].strip()}",
            where=str(path),
            code=ExitCode.DATA,
        ) from error


def averaged_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights, entry by entry, summed in double precision.

    Raises:
        PhmrunError: There are no checkpoints, or one is damaged.
    """
    if not paths:
        raise PhmrunError("there are no checkpoints to average", valid=("training.keep_last > 1",), code=ExitCode.DATA)
    totals: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for path in paths:
        for name, weight in weights_of(load_checkpoint(path), path).items():
            if name in totals and totals[name].shape != weight.shape:
                raise PhmrunError(f"{name} has another shape than before it", where=str(path), code=ExitCode.DATA)
            kinds[name] = weight.dtype
            totals[name] = weight.double() + totals[name] if name in totals else weight.double()
    return {name: (total / len(paths)).to(kinds[name]) for name, total in totals.items()}
