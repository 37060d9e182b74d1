"""Readers of run directories, vocabularies, checkpoints, prepared corpora and archives, and good input for them."""

import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.reader import Read, from_file
from tests.fuzz.texts import TREES, read_lines

STATUS = {
    "state": "done", "reason": None, "step": 100, "started": "2024-01-01T00:00:00Z", "updated": "2024-01-01T00:10:00Z",
    "ended": "2024-01-01T00:10:00Z", "host": "h", "pid": 1, "seconds": 12.5,
    "about": {"task": "nmt", "data": "builtin", "layer": "phm n=4", "seed": 1, "parameters": 1000},
}  # fmt: skip
METRICS = {
    "test/bleu": {"value": 12.5, "signature": "nrefs:1|case:mixed", "items": 100, "interval": [11.0, 14.0]},
    "validation/best": {"value": 0.5, "step": 40}, "train/loss": 1.25, "x": "NaN",
}  # fmt: skip
HISTORY = "".join(
    json.dumps({"step": step, "time": step / 2, "train/loss": 2.5, "val/bleu": 1.0}) + "\n" for step in (1, 2, 3)
)
SAMPLES = {"columns": ["source", "translation"], "rows": [["a", "b"], ["c", "d"]]}
PARAMETERS = {"total": 1000, "dense_total": 4000, "by_scope": {"encoder": {"count": 10, "dense": 40}}}


def run(name: str) -> Callable[[Path], Read]:
    """A run directory of which one file is damaged, read as the verbs of ``phmrun runs`` do."""

    def prepare(folder: Path) -> Read:
        from phmrun.errors import PhmrunError
        from phmrun.ledger import Run
        from phmrun.ledger.listing import configurations, curves, figures, list_runs, score_names, scores, sort

        place = folder / "runs" / "nmt-builtin-dense-1-0123456789ab"
        place.mkdir(parents=True)
        (place / "predictions").mkdir()
        (place / "config.yaml").write_text("task: nmt\nseed: 1\nlayer: {structure: phm, n: 4}\n")
        (place / "status.json").write_text(json.dumps(STATUS))
        (place / "metrics.json").write_text(json.dumps(METRICS))
        (place / "history.jsonl").write_text(HISTORY)
        (place / "parameters.json").write_text(json.dumps(PARAMETERS))
        (place / "predictions" / "samples.json").write_text(json.dumps(SAMPLES))

        run = Run(place)
        history = run.history
        asks = {
            "status.json": [lambda: run.status],
            "metrics.json": [run.metrics, lambda: scores([run, run])],
            "parameters.json": [run.parameters],
            "predictions/samples.json": [run.samples],
            "config.yaml": [lambda: configurations([run, run])],
            "history.jsonl": [
                history.read, lambda: history.cut(10**9),
                lambda: [curves([run], figure) for figure in figures([run])],
            ],
        }[name]  # fmt: skip

        def use(path: Path) -> None:
            actual = list_runs(folder / "runs")
            for key in ("name", "state", "seconds", "step", "updated", "seed", "parameters", "task"):
                sort(actual, key)
            json.dumps([item.to_json() for item in actual], ensure_ascii=False).encode()
            names = score_names(actual)
            if names:
                sort(actual, names[0])
            json.dumps(Run(run.path, lenient=True).faults)
            faults = []
            for ask in asks:
                try:
                    ask()
                except PhmrunError as error:
                    faults.append(error)
            if faults:
                raise faults[0]

        return from_file(use, str((place / name).relative_to(folder)))(folder)

    return prepare


def vocabulary_seeds() -> list[bytes]:
    """Each is a JSON object: the files of one vocabulary, by name, with what they hold."""
    import tempfile

    from phmrun.families.sentence_classification.items import ClassificationVocabulary
    from phmrun.tasks.lm.vocabulary import count_words
    from phmrun.tasks.parse.vocabulary import learn_vocabulary
    from phmrun.text.conllu import read
    from phmrun.text.vocabularies import Vocabularies
    from phmrun.text.vocabulary import WordVocabulary

    words = WordVocabulary(["<pad>", "<unk>", "<s>", "</s>", "a", "b", "Satz"], size=8, requested=100)
    created = {
        "pair": Vocabularies(words, words),
        "labelled": ClassificationVocabulary(words, ["yes", "no"]),
        "stream": count_words(["a b a", "c"]),
        "treebank": learn_vocabulary(read(TREES.splitlines(keepends=True), "trees")),
    }
    seeds = []
    for kind, vocabulary in created.items():
        with tempfile.TemporaryDirectory() as folder:
            vocabulary.save(Path(folder))
            files = {}
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    text = path.read_text()
                    files[str(path.relative_to(folder))] = json.loads(text) if path.suffix == ".json" else text
            seeds.append(json.dumps({"kind": kind, "files": files}).encode())
    return seeds


def vocabularies(folder: Path) -> Read:
    """Unpacks the files, with checksums that fit, so that what lies behind the check is reached."""
    import hashlib
    import shutil

    from phmrun.errors import ExitCode, PhmrunError
    from phmrun.families.sentence_classification.items import ClassificationVocabulary
    from phmrun.tasks.lm.vocabulary import StreamVocabulary
    from phmrun.tasks.parse.vocabulary import TreebankVocabulary
    from phmrun.text.vocabularies import Vocabularies

    place = folder / "vocabulary"

    def read(content: bytes) -> None:
        try:
            outer = json.loads(content)
            files = {
                str(name): value
                for name, value in dict(outer["files"]).items()
                if ".." not in name and "\0" not in name
            }
            kind = outer["kind"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise PhmrunError("not an input", code=ExitCode.DATA) from error
        shutil.rmtree(place, ignore_errors=True)
        for name, value in files.items():
            path = place / name.lstrip("/")[:100]
            if isinstance(value, dict) and "sha256" in value:
                for other, text in files.items():
                    if isinstance(text, str) and other.rpartition("/")[0] == name.rpartition("/")[0]:
                        value["sha256"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            text = value if isinstance(value, str) else json.dumps(value)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode("utf-8", "surrogatepass"))
            except (OSError, ValueError):  # no name of a file
                continue
        if kind == "labelled":
            labelled = ClassificationVocabulary.load(place)
            labelled.encode("a Satz ?")
            _ = labelled.sizes, [str(label) for label in labelled.labels]
        elif kind == "stream":
            stream = StreamVocabulary.load(place)
            stream.decode(stream.encode("a b ?"))
            _ = stream.sizes, sum(stream.counts), len(stream)
        elif kind == "treebank":
            from phmrun.text.conllu import read

            treebank = TreebankVocabulary.load(place)
            treebank.encode(read(TREES.splitlines(keepends=True), "trees"))
            _ = treebank.sizes
        else:
            pair = Vocabularies.load(place)
            pair.target.decode(pair.source.encode("a Satz ?"))
            _ = pair.sizes, pair.source.sha256

    return read


def trained(kind: str) -> bytes:
    from phmrun.text.subwords import train_subwords

    draw = random.Random(1)
    lines = [
        " ".join(draw.choice(("der", "Hund", "sieht", "eine", "Katze", "Haus", "bunte")) for _ in range(6))
        for _ in range(300)
    ]
    return train_subwords(lines, kind=kind, size=60).model


def subwords(folder: Path) -> Read:
    import hashlib

    from phmrun.text.vocabularies import load_vocabulary

    place = folder / "subwords"
    place.mkdir(exist_ok=True)

    def read(content: bytes) -> None:
        (place / "subwords.model").write_bytes(content)
        description = {
            "format": 1, "kind": "unigram", "size": 64, "entries": 60, "requested": 60,
            "sha256": hashlib.sha256(content).hexdigest(),
        }  # fmt: skip
        (place / "vocabulary.json").write_text(json.dumps(description))
        vocabulary = load_vocabulary(place)
        vocabulary.decode(vocabulary.encode("der Hund ?"))
        vocabulary.encode_all(["der", "Katze"])
        vocabulary.decode(list(range(len(vocabulary))))

    return read


def _saved(value: Any) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def _network() -> Any:
    import torch

    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))


def checkpoint_seeds() -> list[bytes]:
    import torch

    weights = _network().state_dict()
    random_states = {"torch": torch.get_rng_state(), "cuda": [], "python": list(random.getstate())[:1]}
    plain = {"state_dict": weights, "global_step": 10}
    full = {**plain, "callbacks": {"Randomness": {"states": random_states}}, "loops": {}}
    return [_saved(value) for value in (plain, full, {"global_step": 10}, [1], {"state_dict": 3})]


def checkpoints(folder: Path) -> Read:
    from phmrun.engine.checkpoints import averaged_weights, load_weights

    network = _network()

    def use(path: Path) -> None:
        load_weights(network, averaged_weights([path, path]), path)

    return from_file(use, "last.ckpt")(folder)


def stores(folder: Path) -> Read:
    """The files of a store behind each other, parted by a line."""
    import shutil

    from phmrun.errors import ExitCode, PhmrunError
    from phmrun.families.sentence_classification.items import ItemStore
    from phmrun.text.store import StreamStore, TokenStore

    place = folder / "store"

    def read(content: bytes) -> None:
        shutil.rmtree(place, ignore_errors=True)
        for item in content.split(MARK):
            name, _, rest = item.partition(b"\n")
            if name.decode("latin-1") in _STORE_FILES:
                path = place / name.decode()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(rest)
        faults = 0
        for kind, *arguments in ((TokenStore, place / "sentence-1"), (StreamStore, place), (ItemStore, place, 1)):
            try:
                _use_store(kind(*arguments))
            except PhmrunError:
                faults += 1
        if faults == 3:
            raise PhmrunError("none of the stores can be read", code=ExitCode.DATA)

    return read


def _use_store(store: Any) -> None:
    if hasattr(store, "lengths"):
        _ = store.lengths.sum(), [len(sentence) for sentence in store], store.tokens
    elif hasattr(store, "sentences"):
        _ = store.labels.sum(), [store.sentences[0][index] for index in range(len(store))]
    else:
        _ = store.tokens[:10].sum(), len(store)


MARK = b"\n=====\n"
_STORE_FILES = (
    *(f"sentence-1/{name}" for name in ("store.json", "tokens.bin", "offsets.bin")),
    *("store.json", "tokens.bin", "labels.npy"),
)


def store_seeds() -> list[bytes]:
    import tempfile

    import numpy as np

    from phmrun.text.store import TokenStoreWriter

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for place, sentences in ((folder / "sentence-1", ([4, 5, 6], [7], [8, 9])), (folder, ([1, 2, 1],))):
            with TokenStoreWriter(place, vocabulary_size=100) as writer:
                for sentence in sentences:
                    writer.append(sentence)
        np.save(folder / "labels.npy", np.array([0, 1, 1]))
        return [MARK.join(file.encode() + b"\n" + (folder / file).read_bytes() for file in _STORE_FILES)]


def archive_seeds() -> list[bytes]:
    packed, tars = io.BytesIO(), []
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/train.txt", "a line\n" * 50)
        archive.writestr("other.txt", "x")
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode=mode) as tar:
            entry = tarfile.TarInfo("folder/train.txt")
            entry.size = 350
            tar.addfile(entry, io.BytesIO(b"a line\n" * 50))
            link = tarfile.TarInfo("other.txt")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
        tars.append(stream.getvalue())
    return [packed.getvalue(), *tars]


def archives(folder: Path) -> Read:
    from phmrun.datasets.assembly import _opened, decompressed, extract

    def use(path: Path) -> None:
        with _opened(path, "folder/train.txt") as packed:
            stream = decompressed(packed)
            while stream.read(1 << 16):
                pass
        extract(path, "folder/train.txt", folder / "out", limit=1 << 20)

    return from_file(use, "archive")(folder)


def zipped_text(folder: Path) -> Read:
    return from_file(read_lines, "text.gz")(folder)


def gzip_seeds() -> list[bytes]:
    import gzip

    return [gzip.compress(b"a line of text\nand another\n" * 20, mtime=0)]
