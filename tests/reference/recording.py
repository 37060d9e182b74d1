"""Recorded numbers of other authors' code: fixed weights and inputs, and the outputs that their code gives.

A script runs one repository at a named commit and writes ``fixtures/NAME.npz`` (numbers) and ``fixtures/NAME.json``
(repository, commit, license, changes needed to run). ``make_phm.py`` is the pattern; the other scripts are in the
repository's history: ``git log -- 'tests/reference/make_*.py'``. Nothing of their code is kept here.
"""

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Source:
    """A repository at a commit."""

    repository: str
    commit: str
    license: str
    files: tuple[str, ...]  # files and folders whose code is run
    changes: str = ""  # what was changed to run it


@contextmanager
def checked_out(source: Source, git_directory: str) -> Iterator[Path]:
    """Folder with the repository's files at the commit, first on ``sys.path``."""
    command = ["git", "--git-dir", git_directory, "archive", source.commit, *source.files]
    archive = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            members.extractall(folder, filter="data")
        sys.path.insert(0, folder)
        yield Path(folder)


def empty_packages(folder: Path, *names: str) -> None:
    """Let packages below the folder be imported without their own files."""
    for name in names:
        package = types.ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package


def record(name: str, source: Source, numbers: Mapping[str, Tensor | np.ndarray]) -> None:
    """Write the numbers and where they are from; prints the size."""
    arrays = {key: np.asarray(value.detach() if isinstance(value, Tensor) else value) for key, value in numbers.items()}
    path = FIXTURES / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    (FIXTURES / f"{name}.json").write_text(json.dumps(asdict(source), indent=1) + "\n")
    print(f"{path.name}: {len(arrays)} arrays, {path.stat().st_size:,} bytes")


def recorded(name: str) -> dict[str, Tensor]:
    """The numbers of a fixture."""
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        return {key: torch.from_numpy(arrays[key]) for key in arrays.files}


def part(numbers: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The numbers below a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in numbers.items() if key.startswith(prefix)}


def largest_difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """The largest absolute difference over all tensors; refuses different names or shapes."""
    assert ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys())
    wrong = [name for name in ours if ours[name].shape != theirs[name].shape]
    assert not wrong, wrong
    return max(float((ours[name] - theirs[name]).detach().abs().max()) for name in ours)


@contextmanager
def default_double() -> Iterator[None]:
    """float64 as torch's default."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)
