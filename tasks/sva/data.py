"""Data of subject–verb agreement, and its nearest-noun baseline."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from phmrun.datasets import CATALOGUE, SPLITS, builtin, checksums, locate, own_texts, splits_here
from phmrun.families.sentence_classification.config import ClassificationDataConfig
from phmrun.families.sentence_classification.data import ClassificationCorpus, ClassificationData
from phmrun.families.sentence_classification.items import Item, Reader, divided, in_parts
from phmrun.tasks.sva.config import LABELS, AgreementExperiment
from phmrun.text.agreement import Item as AgreementItem
from phmrun.text.agreement import divide, read_agreement

NUMBERS = dict(zip(("VBZ", "VBP"), LABELS, strict=True))  # number of a verb by its tag
READING = {"format": "agreement"}
REDUCED = {"train": 85, "dev": 5, "held-out": 10}
"""Percentages of the validation file, if there is no training file."""
NATURAL = {"train": 70, "dev": 10, "held-out": 20}
"""Percentages of the validation file whose held-out part alone is the test set."""


def build_data(config: AgreementExperiment, cache: Path) -> ClassificationData:
    """Build the data module of an experiment.

    Prepared data are in ``cache``.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    return ClassificationData(config, corpus(config.data, cache), cache)


def corpus(data: ClassificationDataConfig, cache: Path) -> ClassificationCorpus:
    """Return the items that a data section names.

    They are built-in (with the nearest-noun baseline), the user's own, or a published dataset. A dataset with a split
    "all" is that table, divided as by its authors. Another one is its files or, with ``reduced``, its divided
    validation file.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    if data.name == "builtin":  # the test items' attractors are in a separate file
        directory = builtin.unpack("agreement", cache)
        files = {split: directory / f"{split}.tsv" for split in SPLITS}
        readers: dict[str, Reader] = {split: partial(read, path) for split, path in files.items()}
        readers["test"] = partial(in_parts, readers["test"], directory / "test.attractors")
        baselines = {"nearest-noun": partial(nearest_noun_baseline, directory / "nouns.tsv")}
        return ClassificationCorpus(readers, files, {"builtin": builtin.VERSIONS["agreement"]}, READING, baselines)
    if data.name == "files":
        files, sums = own_texts(data)
        return ClassificationCorpus({split: partial(read, path) for split, path in files.items()}, files, sums, READING)
    if "all" in CATALOGUE.get(data.name).splits:
        return _undivided(data.name)
    return _reduced(data.name, natural=data.reduced == "natural") if data.reduced else _complete(data.name)


def read(path: Path, part: str | None = None) -> Iterator[Item]:
    """Yield the items of a file in either of Linzen's formats.

    ``part`` is the part of all items; by default the number of attractors, empty if unknown.
    """
    return (_item(item, part) for item in read_agreement(path))


def _item(item: AgreementItem, part: str | None = None) -> Item:
    """Return an item with its verb's number, and its part as :func:`read` says."""
    attractors = "" if item.attractors is None else str(item.attractors)
    return Item((item.prefix,), NUMBERS[item.label], attractors if part is None else part)


def nearest_noun_baseline(nouns: Path, items: Sequence[Item]) -> list[str]:
    """Return for each item the number of the nearest noun before the verb.

    It is singular without a noun. It is right if no attractor stands between subject and verb, and wrong if all nouns
    in between are attractors, except for verb forms such as "saw" that look like nouns. Each line of ``nouns`` has a
    verb tag, a tab, and a noun form.
    """
    rows = (line.split("\t") for line in nouns.read_text(encoding="utf-8").splitlines())
    numbers = {form: NUMBERS[tag] for tag, form in rows}
    prefixes = (reversed(item.sentences[0].split()) for item in items)
    return [next((numbers[word] for word in prefix if word in numbers), NUMBERS["VBZ"]) for prefix in prefixes]


def _complete(name: str) -> ClassificationCorpus:
    """Return a published dataset.

    It has train, dev, test, and all further splits on this machine, which list items by attractors. A test item in one
    of these has its part, else its own.

    Raises:
        PhmrunError: (exit 3) The dataset is not on this machine.
    """
    here = splits_here(CATALOGUE.get(name))
    splits = [*SPLITS, *(split for split in here if split not in SPLITS)]
    paths = {split: files["items"] for split, files in locate(name, splits).items()}
    readers: dict[str, Reader] = {split: partial(read, path) for split, path in paths.items()}
    by_attractors = [path for split, path in paths.items() if split not in SPLITS]

    def test() -> Iterator[Item]:
        """Yield the test items with the part of the file that lists them, else their own."""
        listed = {item.sentences: item.part for part in by_attractors for item in read(part)}
        return (item._replace(part=listed.get(item.sentences, item.part)) for item in read(paths["test"]))

    return ClassificationCorpus({**readers, "test": test}, paths, checksums(name, splits), READING)


def _reduced(name: str, *, natural: bool) -> ClassificationCorpus:
    """Return a corpus without a training file: its validation file, divided.

    Items that a file by attractors has too are left out of all shares. Those files are splits (``test_1``).
    The test set is the held-out share if ``natural``, otherwise that share and those files, each scored as a part.
    """
    here = splits_here(CATALOGUE.get(name))
    tests = [split for split in here if split.startswith("test_")]
    splits = ["dev", *tests]
    paths = {split: files["items"] for split, files in locate(name, splits).items()}
    tested: dict[str, Reader] = {split: partial(read, paths[split]) for split in tests}
    percentages = NATURAL if natural else REDUCED
    part = "" if natural else "held-out"
    shares = divided(partial(read, paths["dev"], part), percentages, without=tested.values())
    readers = {**tested, "train": shares["train"], "dev": shares["dev"], "test": shares["held-out"]}
    if not natural:
        parts = [shares["held-out"], *tested.values()]
        readers["test"] = lambda: chain.from_iterable(part() for part in parts)
    reading = {**READING, "setting": "reduced-from-dev-" + "/".join(map(str, percentages.values()))}
    return ClassificationCorpus(readers, paths, checksums(name, splits), reading, whole=False)


def _undivided(name: str) -> ClassificationCorpus:
    """Return the full table, divided by :func:`divide`.

    The table is read anew for each split.
    """
    path = locate(name)["all"]["items"]

    def split(name: str) -> Iterator[Item]:
        """Yield the items of a split."""
        return map(_item, divide(list(read_agreement(path)))[name])

    readers = {name: partial(split, name) for name in SPLITS}
    return ClassificationCorpus(readers, {"all": path}, checksums(name), READING, whole=False)
