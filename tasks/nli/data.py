"""Data of natural language inference, and its bag-of-words baseline."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

from phmrun.datasets import CATALOGUE, SPLITS, builtin, checksums, data_dir, locate, own_texts, splits_here
from phmrun.errors import data_error
from phmrun.families.sentence_classification.data import Baseline, ClassificationCorpus, ClassificationData
from phmrun.families.sentence_classification.items import Item, LeftOut, Reader, divided, in_parts
from phmrun.progress import note
from phmrun.tasks.nli.config import NLIExperiment
from phmrun.text.nli_pairs import read_pairs
from phmrun.text.words import learn_labels, spaced

REDUCED = {"train": 90, "dev": 10}  # percentages of the validation file, if there is no training file
NAME = "bag-of-words"
MOST = 50_000  # first training pairs of the baseline; more take minutes and hardly change the accuracy
GENRES = {"dev": "matched", "dev_mismatched": "mismatched"}
"""Validation splits that papers report as two test sets, since the test labels are not public."""


def build_data(config: NLIExperiment, cache: Path) -> ClassificationData:
    """Build the data module of an experiment.

    Prepared data are in ``cache``. With training pairs, it has a bag-of-words baseline. With ``data.vectors``, words
    have the pretrained vectors of that file.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    vectors = None if config.data.vectors is None else find_vectors(config.data.vectors)
    pairs, width = corpus(config, cache), config.vector_width
    data = ClassificationData(config, pairs, cache, vectors=vectors, vector_width=width)
    if "train" in data.files:
        data.corpus = replace(pairs, baselines={NAME: bag_of_words(data.files["train"])})
    return data


def corpus(config: NLIExperiment, cache: Path) -> ClassificationCorpus:
    """Return the pairs that a configuration names.

    They are built-in, the user's own, or a published dataset; ``data.reduced`` divides the latter's validation file. A
    dataset without a test file is tested on both of its validation files, if it has two; these are the test set's
    parts. The parts of the built-in test set are constructions seen and not seen in training. A published dataset has
    its train, dev and test splits, and those of its further splits that are on this machine.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    name = config.data.name
    if name == "builtin":  # parts of the test set: constructions seen and not seen in training
        directory = builtin.unpack("inference", cache)
        paths = {split: directory / f"{split}.tsv" for split in SPLITS}
        readers = _readers(config, paths)
        readers["test"] = partial(in_parts, readers["test"], directory / "test.part")
        return _corpus(config, readers, paths, {"builtin": builtin.VERSIONS["inference"]})
    if name == "files":
        paths, sums = own_texts(config.data)
        return _corpus(config, _readers(config, paths), paths, sums)
    if config.data.reduced:
        return _reduced(config)
    here = splits_here(CATALOGUE.get(name))
    published = CATALOGUE.get(name).splits
    splits = [split for split in published if split in here or split in SPLITS]
    paths = {split: files["pairs"] for split, files in locate(name, splits).items()}
    readers = _readers(config, paths)
    genres = [split for split in GENRES if split in readers]
    if "test" not in readers and len(genres) > 1:
        readers["test"] = partial(_parts, {GENRES[split]: readers[split] for split in genres})
    return _corpus(config, readers, paths, checksums(name, splits))


def read(path: Path, format: str, labels: Mapping[str, str | None] | None = None) -> Iterator[Item | LeftOut]:
    """Yield the pairs of a file.

    Args:
        path: The file.
        format: Its format, see :mod:`phmrun.text.nli_pairs`.
        labels: Class of each label in the file, None to drop its pairs; the format's own if not given.
    """
    for pair in read_pairs(path, format, labels):
        yield Item((pair.premise, pair.hypothesis), pair.label) if pair else LeftOut("no gold label")


def find_vectors(path: Path) -> Path:
    """Return the path of a file of word vectors.

    It is looked up in the working directory, then in the data directory.

    Raises:
        PhmrunError: (exit 3) The file is in neither place.
    """
    for candidate in (path, data_dir() / path):
        if candidate.is_file():
            return candidate
    hint = "Run: phmrun data fetch glove --split 6B.300d, then set data.vectors to glove/glove.6B.300d.txt"
    raise data_error(f"the word vectors are neither here nor in the data directory: {path}", "data.vectors", hint)


def _readers(config: NLIExperiment, paths: Mapping[str, Path]) -> dict[str, Reader]:
    """Return a reader for each split's file, by split.

    It reads with the experiment's format and mapping of labels.
    """
    return {split: partial(read, path, config.format, config.data.labels) for split, path in paths.items()}


def _corpus(
    config: NLIExperiment,
    readers: Mapping[str, Reader],
    paths: Mapping[str, Path],
    sums: Mapping[str, str],
    **setting: str,
) -> ClassificationCorpus:
    """Return the corpus of readers.

    Its signature names the format, the mapping of labels, and a reduced setting, in which all splits are read from all
    files. Its checksums name the classes if the user's labels number them in another order than the sorted labels.
    """
    reading = {"format": config.format}
    if config.data.labels is not None:  # for the signature: yes=entailment,no=contradiction
        pairs = config.data.labels.items()
        reading["mapping"] = ",".join(name if name == label else f"{label}={name}" for label, name in pairs)
        order = [name for name in dict.fromkeys(dict(sorted(pairs)).values()) if name is not None]
        # The run id sorts the labels, but the numbers of the classes follow the user's order.
        sums = dict(sums) if order == [*config.labels] else {**sums, "classes": ",".join(config.labels)}
    return ClassificationCorpus(readers, paths, sums, {**reading, **setting}, whole=not setting)


def _reduced(config: NLIExperiment) -> ClassificationCorpus:
    """Return a corpus without a training file.

    Its validation file is divided by premise into 90 % for training and 10 % for validation. Pairs that the test file
    has, too, are left out of both. The signature names the setting.
    """
    name, splits = config.data.name, ["dev", "test"]
    paths = {split: files["pairs"] for split, files in locate(name, splits).items()}
    readers = _readers(config, paths)
    shares = divided(readers["dev"], REDUCED, without=[readers["test"]])
    setting = "reduced-from-dev-" + "/".join(map(str, REDUCED.values()))
    readers = {**shares, "test": readers["test"]}
    return _corpus(config, readers, paths, checksums(name, splits), setting=setting)


def _parts(readers: Mapping[str, Reader]) -> Iterator[Item | LeftOut]:
    """Yield the items of several readers, each with the name of its reader as part.

    Pairs left out are yielded unchanged.
    """
    for part, reader in readers.items():
        for item in reader():
            yield item._replace(part=part) if isinstance(item, Item) else item


def words_of_pair(premise: str, hypothesis: str) -> Iterator[str]:
    """Yield the features of a pair: "p:dog", "h:dog", "both:dog", "h-alone:dog".

    They are words of the premise, of the hypothesis, of both, and of the hypothesis only; each once, in lower case,
    sorted within a kind. Punctuation marks are words of their own: "p:.".
    """
    first, second = (set(spaced(text, True, "punctuation").split()) for text in (premise, hypothesis))
    for place, words in (("p", first), ("h", second), ("both", first & second), ("h-alone", second - first)):
        for word in sorted(words):
            yield f"{place}:{word}"


def bag_of_words(train: Reader) -> Baseline:
    """Return the baseline that labels pairs by their words.

    It is logistic regression by scikit-learn. It trains on the first :data:`MOST` pairs of ``train`` at the first call,
    once. If they have a single label, it always gives that one. A network below it has learned nothing from word order.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed; raised at the first call.
    """

    @cache
    def learnt() -> Baseline:
        """Train the classifier, once, and return it as a function of items.

        A note on stderr names the number of training pairs.
        """
        items = list(islice((item for item in train() if not isinstance(item, LeftOut)), MOST))
        note(f"baseline {NAME}: logistic regression on {len(items):,} training pairs")
        pairs, labels = [item.sentences for item in items], [item.label for item in items]
        if len(set(labels)) == 1:
            return lambda asked: labels[:1] * len(asked)
        predict = learn_labels(pairs, labels, analyzer=lambda sentences: words_of_pair(*sentences))
        return lambda asked: [str(label) for label in predict([item.sentences for item in asked])]

    return lambda asked: learnt()(asked)
