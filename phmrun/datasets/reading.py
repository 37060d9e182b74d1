"""Counts of a dataset's content on this machine, compared with the published counts.

Readers are imported when needed, so that listing datasets imports none of them.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.datasets.catalogue import CATALOGUE, Dataset
from phmrun.datasets.locations import DROPPED, RECORD, Check, check, dataset_dir, locate, recorded, splits_here
from phmrun.errors import data_error
from phmrun.files import write_json
from phmrun.progress import progress

_STRIDE = 1000  # rows between two advances of the progress

Sizes = Mapping[str, int]  # counts by unit: pairs, sentences, words, …


_VERDICTS = ("as published", "more than published", "too few")  # of a difference of 0, above 0, below 0


class Count(NamedTuple):
    """Number of units of one kind in a split."""

    unit: str  # such as "pairs"
    found: int  # on this machine
    # published number without the pairs that assembly left out; None if nothing is published
    published: int | None
    verdict: str  # "as published", "too few", "more than published", or "no published count"


def count(dataset: Dataset, split: str, files: Mapping[str, Path]) -> dict[str, int]:
    """Read all files of a split, and return the counts by unit.

    Files are read row by row, with a progress display.

    Raises:
        PhmrunError: (exit 3) A file is damaged or of another format; the message names file and line.
    """
    sizes: Counter[str] = Counter()
    with progress(f"reading {dataset.name} {split}", None, "rows") as advance:
        for number, row in enumerate(_rows(dataset.format, files), 1):
            sizes.update(row)
            if number % _STRIDE == 0:
                advance(_STRIDE)
    return sizes


def compare(dataset: Dataset, split: str, counts: Sizes) -> list[Count]:
    """Return the counts beside the published ones, for the counted units.

    Pairs of parallel text that assembly leaves out are subtracted from the published number. The result is in the order
    of ``counts``; a unit that is not published has ``published`` None.

    Args:
        dataset: The dataset.
        split: Name of the split.
        counts: Counts by unit.
    """
    published = dict(dataset.sizes.get(split, {}))
    if "pairs" in published and dataset.format == "parallel":
        published["pairs"] -= recorded(dataset, DROPPED).get(split, 0)
    rows = []
    for unit, amount in counts.items():
        expected = published.get(unit)
        verdict = "no published count" if expected is None else _VERDICTS[(amount > expected) - (amount < expected)]
        rows.append(Count(unit, amount, expected, verdict))
    return rows


def verify_dataset(name: str, cache: Path) -> None:
    """Check once the checksums and sizes of a dataset's present splits.

    Run ids name a dataset by the catalogue's checksums, so that other content must not pass. Passed splits are recorded
    below ``cache``. They are read again only if a file's size or time of change or status differs; `data info --check`
    and `verify` read them every time.

    Raises:
        PhmrunError: (exit 3) A file is malformed or has another checksum than the catalogue's or the one recorded at
            the first download, or a split has fewer units than published.
    """
    dataset = CATALOGUE.get(name)
    for split in splits_here(dataset):
        files = locate(name, [split])[split]
        facts: list[Any] = [dataset.name, dataset.format, split, sorted(dataset.sizes.get(split, {}).items())]
        for role, path in sorted(files.items()):
            now = path.stat()
            facts.append([role, str(path.resolve()), now.st_size, now.st_ino, now.st_mtime_ns, now.st_ctime_ns])
        state = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
        marker = cache / "counted" / f"{state}.json"
        if marker.is_file():
            continue
        record = recorded(dataset, RECORD)
        wrong = [file.path for file in dataset.splits[split] if check(dataset, file, record) is Check.WRONG]
        fewer = [row for row in compare(dataset, split, count(dataset, split, files)) if row.verdict == "too few"]
        if wrong or fewer:
            faults = [f"checksum mismatch of {file}" for file in wrong]
            faults += [f"{row.found:,} {row.unit} instead of the published {row.published:,}" for row in fewer]
            what = f"{name} {split} is truncated, or another version: {', '.join(faults)}"
            hint = f"Fetch it again: phmrun data fetch {name} --force"
            if not wrong:  # no checksum says that a file is to be replaced
                names = ", ".join(file.path for file in dataset.splits[split])
                hint = f"Remove {names}; then: phmrun data fetch {name}"
            raise data_error(what, dataset_dir(dataset), hint)
        # Written last, so that a refused split is read and refused again.
        write_json(marker, {"dataset": name, "split": split})


def _rows(format: str, files: Mapping[str, Path]) -> Iterator[Sizes]:
    """Yield the counts by unit of each row of a split's files.

    Units: "pairs" of two parallel files and of labeled pairs, "lines" of one parallel file, "items" of agreement,
    "sentences" and "words" of treebanks, "lines" and "words" of running text, "vectors". The pairs that a reader drops
    are counted as "unlabelled".

    Raises:
        PhmrunError: (exit 3) A row is malformed.
    """
    from phmrun.text.agreement import read_agreement
    from phmrun.text.conllu import load
    from phmrun.text.lines import LONGEST_PARAGRAPH, numbered_lines, read_lines, read_parallel
    from phmrun.text.nli_pairs import read_pairs

    if format == "parallel" and len(files) == 2:
        yield from ({"pairs": 1} for _ in read_parallel(*files.values()))
        return
    for path in files.values():
        if format == "parallel":
            yield from ({"lines": 1} for _ in read_lines(path))
        elif format == "agreement":
            yield from ({"items": 1} for _ in read_agreement(path))
        elif format == "conllu":
            yield from ({"sentences": 1, "words": len(sentence)} for sentence in load(path))
        elif format == "lines":
            lines = numbered_lines(path, longest=LONGEST_PARAGRAPH)
            yield from ({"lines": 1, "words": len(line.split())} for _, line in lines)
        elif format == "vectors":
            yield from ({"vectors": 1} for _ in numbered_lines(path))
        else:
            yield from ({"pairs": 1} if pair else {"pairs": 0, "unlabelled": 1} for pair in read_pairs(path, format))
