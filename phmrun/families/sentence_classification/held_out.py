"""One file as several splits, for data whose training file is not at hand.

Which split an item belongs to depends on the text of its first sentence alone: the same in every order of the file, on
every machine, and for all items that share the sentence.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from phmrun.families.sentence_classification.items import Item, LeftOut, Reader


def divided(reader: Reader, shares: Mapping[str, int], *, without: Iterable[Reader] = ()) -> dict[str, Reader]:
    """Readers of the splits of one file.

    Args:
        reader: Reads the file.
        shares: By split its share of the items in per cent, 100 in all.
        without: Readers of items that must not occur in any of the splits; what is left out of each is counted.

    Raises:
        ValueError: The shares are not 100 in all.
    """
    if sum(shares.values()) != 100:
        raise ValueError(f"shares of {dict(shares)} per cent are not 100 in all")
    readers: dict[str, Reader] = {}
    start = 0
    for split, share in shares.items():
        readers[split] = partial(_share, reader, range(start, start + share), tuple(without))
        start += share
    return readers


def hundredth(sentence: str) -> int:
    """A number from 0 to 99 that depends on a text alone."""
    return int.from_bytes(hashlib.sha256(sentence.encode()).digest()[:8], "big") % 100


def _share(reader: Reader, wanted: range, without: tuple[Reader, ...]) -> Iterator[Item | LeftOut]:
    """The items whose number is wanted, and how many of these occur elsewhere."""
    elsewhere = {item.sentences for other in without for item in other() if isinstance(item, Item)}
    doubled = 0
    for item in reader():
        if isinstance(item, LeftOut):
            if wanted.start == 0:  # what the file itself leaves out is told once
                yield item
        elif hundredth(item.sentences[0]) in wanted:
            if item.sentences in elsewhere:
                doubled += 1
            else:
                yield item
    if doubled:
        yield LeftOut("also in a test file", doubled)
