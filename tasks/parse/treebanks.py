"""Where the trees of a parsing experiment come from, and which of them are learnt from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from phmrun.datasets import SPLITS, builtin, checksums, locate, own_files
from phmrun.errors import PhmrunError
from phmrun.files import sha256_of
from phmrun.tasks.parse.config import TreebankDataConfig

DIVISION_SEED = 1  # seed of what is held out; the experiment's seed varies the training, not the data
ROLE = "conllu"


@dataclass(frozen=True)
class Treebank:
    """Trees on this machine."""

    files: Mapping[str, tuple[Path, ...]]  # CoNLL-U files by split; "train" has one or several
    fingerprints: Mapping[str, str]  # checksums that identify them
    # by split, the file that says, line by line, which part each sentence belongs to
    parts: Mapping[str, Path] = field(default_factory=dict)


def find_treebank(data: TreebankDataConfig, cache: Path) -> Treebank:
    """The files that a data section names; the built-in treebank is unpacked on first use.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    if data.name == "files":
        return _own_files(data)
    if data.name == "builtin":
        directory = builtin.unpack("treebank", cache)
        located = {split: directory / f"{split}.conllu" for split in SPLITS}
        sums = {"builtin": builtin.VERSIONS["treebank"]}
        parts = {"test": directory / "test.part"}
    else:
        located = {split: roles[ROLE] for split, roles in locate(data.name).items()}
        sums, parts = checksums(data.name), {}
    missing = [split for split in data.train if split not in located]
    if "dev" not in located and not data.hold_out:
        missing.append("dev")
    if missing:
        raise PhmrunError(
            f"the treebank {data.name!r} has no split {missing[0]!r}",
            where="data.train" if missing[0] in data.train else "data.hold_out",
            valid=tuple(located),
            hint="Use --set data.hold_out=0.1 to validate on a tenth of the training sentences.",
        )
    files = {"train": tuple(located[split] for split in data.train)}
    files |= {split: (path,) for split, path in located.items() if split not in ("train", *data.train)}
    if data.train != ("train",):
        sums = {**sums, "train": ",".join(data.train)}
    return Treebank(files, sums, parts)


def _own_files(data: TreebankDataConfig) -> Treebank:
    """The user's own files.

    Raises:
        PhmrunError: (exit 3) One of them does not exist.
    """
    files = own_files(train=data.train, dev=data.dev, test=data.test)
    sums = {
        f"{split}.{number}": sha256_of(path) for split, paths in files.items() for number, path in enumerate(paths, 1)
    }
    return Treebank(files, sums)


def divided(count: int, hold_out: float, fraction: Fraction) -> tuple[Sequence[int], Sequence[int]]:
    """Which of ``count`` training sentences are learnt from and which are held out, both in the order of the files.

    All are put into one random order, always the same. What is held out comes first in it, and of the rest the share
    that is learnt from: so a smaller share is part of a larger one, and what is held out does not depend on it.
    """
    order = np.argsort(np.random.PCG64(DIVISION_SEED).random_raw(count), kind="stable")
    held = max(1, round(count * hold_out)) if hold_out else 0
    learnt = max(1, round((count - held) * fraction))
    return sorted(order[held : held + learnt].tolist()), sorted(order[:held].tolist())
