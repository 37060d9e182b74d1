"""Train, dev and test: splits that share no sentence, and a test set with something that training lacks."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from phmrun.errors import PhmrunError

T = TypeVar("T")

SPLITS = ("train", "dev", "test")
SEEN, NOVEL = "seen", "novel"
NOVEL_SHARE = 5  # every fifth item of the test set


@dataclass(frozen=True, slots=True)
class Candidate(Generic[T]):
    """An item that may enter a split.

    Attributes:
        item: What the split is to hold.
        strings: Its sentences; none of them enters the corpus a second time.
        novelties: What it has that training must lack; empty for an item that any split may hold.
    """

    item: T
    strings: tuple[str, ...]
    novelties: tuple[str, ...] = ()


def wanted_sizes(default: Mapping[str, int], sizes: Mapping[str, int] | None) -> dict[str, int]:
    """The sizes of all splits: those asked for, and the default where none is.

    Raises:
        PhmrunError: A split is unknown or a size negative.
    """
    wanted = dict(default) | dict(sizes or {})
    for name, size in wanted.items():
        if name not in default:
            raise PhmrunError(f"the built-in corpus has no split {name!r}", valid=list(default))
        if size < 0:
            raise PhmrunError(f"the size of split {name!r} is negative: {size}")
    return wanted


def draw_splits(
    key: str,
    sizes: Mapping[str, int],
    draw: Callable[[str], Candidate[T] | None],
    held_out: Collection[str] = (),
    every: int = NOVEL_SHARE,
) -> dict[str, list[T]]:
    """Draws each split's items one by one, each from a key of its own.

    A part of the test set is novel, evenly spread; train and dev have nothing of what is held out.

    Args:
        key: Names the corpus and its seed.
        sizes: Items per split.
        draw: The candidate that belongs to a key, for ever; None where it is unfit.
        held_out: All novelties that there are; none fills more than its share, half as much again at most.
        every: One in so many items of the test set is novel.
    """
    taken: set[str] = set()  # only asked for membership: its order never matters
    splits: dict[str, list[T]] = {}
    # The small splits choose first: what they take, training cannot have.
    for name in ("test", "dev", "train"):
        novel = sizes[name] // every if name == "test" and held_out else 0
        splits[name] = draw_split(f"{key}/{name}", sizes[name] - novel, draw, taken, novel=novel, held_out=held_out)
    return {name: splits[name] for name in SPLITS}


def draw_split(
    key: str,
    seen: int,
    draw: Callable[[str], Candidate[T] | None],
    taken: set[str],
    *,
    novel: int = 0,
    held_out: Collection[str] = (),
) -> list[T]:
    """Draws one split, or a part of one; its strings are added to ``taken``.

    Args:
        key: Names the corpus, its seed and the split.
        seen: Items without novelties.
        draw: As in :func:`draw_splits`.
        taken: The strings of what has been drawn before.
        novel: Items with novelties.
        held_out: All novelties that there are.
    """
    pools: dict[str, list[T]] = {SEEN: [], NOVEL: []}
    room = {SEEN: seen, NOVEL: novel}
    met = dict.fromkeys(held_out, 0)
    most = 3 * novel // (2 * len(held_out)) + 1 if held_out else 0  # so that no novelty crowds out the others
    attempt = 0
    while any(len(pools[part]) < room[part] for part in pools):
        candidate = draw(f"{key}/{attempt}")
        attempt += 1
        if candidate is None:
            continue
        part = NOVEL if candidate.novelties else SEEN
        if len(pools[part]) >= room[part] or any(string in taken for string in candidate.strings):
            continue
        if any(met[novelty] >= most for novelty in candidate.novelties):
            continue
        for novelty in candidate.novelties:
            met[novelty] += 1
        taken.update(candidate.strings)
        pools[part].append(candidate.item)
    return _interleaved(pools[SEEN], pools[NOVEL])


def _interleaved(seen: list[T], novel: list[T]) -> list[T]:
    """The novel items spread evenly, so that any prefix of the split is a fair sample of it."""
    if not novel:
        return seen
    step = len(seen) // len(novel)
    merged: list[T] = []
    for index, item in enumerate(novel):
        merged += [*seen[index * step : (index + 1) * step], item]
    return merged + seen[len(novel) * step :]


def lines(texts: Iterable[str]) -> str:
    """The content of a file with a text per line."""
    return "".join(f"{text}\n" for text in texts)
