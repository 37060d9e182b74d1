"""Every reader of the program, with good input for it: what is read, and then used as its callers use it."""

import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Read = Callable[[bytes], Any]
TASKS = ("nmt", "style", "sva", "nli", "parse", "lm")


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
        name: For the command line and the table.
        kind: Whether it reads text (JSON and YAML among it) or bytes.
        seeds: Makes good inputs.
        prepare: Given a folder to work in, returns what reads one input.
        tokens: Words of its format.
        structured: Whether the inputs are JSON.
    """

    name: str
    kind: Literal["text", "binary"]
    seeds: Callable[[], Sequence[bytes]]
    prepare: Callable[[Path], Read]
    tokens: tuple[bytes, ...] = ()
    structured: bool = False


def _from_file(use: Callable[[Path], Any], name: str = "input") -> Callable[[Path], Read]:
    """What writes an input to a file of that name and uses the file."""

    def prepare(folder: Path) -> Read:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)

        def read(content: bytes) -> Any:
            path.write_bytes(content)
            return use(path)

        return read

    return prepare


@cache
def _options() -> Any:
    from phmrun.layers import options_of

    return cache(options_of)


def _defaults(task: str) -> dict[str, Any]:
    from phmrun.config import resolve, task_defaults
    from phmrun.registry import TASKS as REGISTERED

    schema = REGISTERED.get(task).load("schema")
    config: dict[str, Any] = resolve(schema, [task_defaults(task)], _options()).config.model_dump(mode="json")
    return config


def _config_seeds() -> list[bytes]:
    texts = [json.dumps(_defaults(task)).encode() for task in TASKS]
    return [*texts, b"task: nmt\nlayer: {structure: phm, n: 4}\nmodel:\n  preset: tiny\ntraining:\n  clip: 1.5\n"]


def _read_config(path: Path) -> None:
    from phmrun.config import read_source, resolve, run_id, task_defaults, to_yaml
    from phmrun.registry import TASKS as REGISTERED

    source = read_source(path)
    task = source.values.get("task")
    task = task if task in TASKS else "nmt"
    config = resolve(REGISTERED.get(task).load("schema"), [task_defaults(task), source], _options()).config
    to_yaml(config)
    run_id(config, fingerprints={})


def _sweep_seeds() -> list[bytes]:
    grid = {
        "title": "x", "task": "nmt", "base": {"model": {"preset": "tiny"}}, "seeds": 2,
        "grid": {"layer": ["dense", {"structure": "phm", "n": 2}], "training.clip": [0, 1]},
        "include": [{"layer": "circulant"}], "exclude": [{"layer": "dense", "training.clip": 1}],
    }  # fmt: skip
    several = {"tasks": {"sva": {}, "nli": {"data": {"name": "snli"}}}, "seeds": [1, 7], "grid": {"layer": ["dense"]}}
    table = {"table": "configs/papers/phm/table5.yaml", "rows": [], "reduced": "steps", "base": {"training": {}}}
    return [json.dumps(each).encode() for each in (grid, several, table)]


def _read_sweep(path: Path) -> None:
    from phmrun.sweeps import Inspected, load_sweep, plan

    for cell in plan(load_sweep(str(path)), lambda config: Inspected(1, {}), _options()).cells[:50]:
        _ = cell.label


def _table_seeds() -> list[bytes]:
    from phmrun.config import config_source
    from phmrun.papers import table_names

    return [json.dumps(config_source(name).values).encode() for name in table_names()]


def _read_table(path: Path) -> None:
    from phmrun.papers import load_table

    load_table(str(path))


def _setting_seeds() -> list[bytes]:
    from phmrun.config import leaves, resolve, task_defaults
    from phmrun.registry import TASKS as REGISTERED

    found = []
    for task in TASKS:
        config = resolve(REGISTERED.get(task).load("schema"), [task_defaults(task)], _options()).config
        found += [f"{task} {key}={json.dumps(value, default=str)}".encode() for key, value in leaves(config)]
    return found


def _read_setting(folder: Path) -> Read:
    from phmrun.cli.options import ExperimentOptions
    from phmrun.cli.resolving import resolve_options

    def read(content: bytes) -> None:
        task, _, setting = content.decode("utf-8", "replace").partition(" ")
        resolve_options(ExperimentOptions(task if task in TASKS else "nmt", set_=[setting]))

    return read


TREES = (
    "# text = Sie sah's.\n1-2\tsah's\t_\t_\t_\t_\t_\t_\t_\t_\n1\tSie\tsie\tPRON\tPPER\tCase=Nom\t2\tnsubj\t2:nsubj\t_\n"
    "2\tsah\tsehen\tVERB\tVVFIN\t_\t0\troot\t0:root\t_\n2.1\tx\t_\t_\t_\t_\t_\t_\t2:dep\t_\n"
    "3\t's\tes\tPRON\tPPER\t_\t2\tobj\t_\tSpaceAfter=No\n4\t.\t.\tPUNCT\t$.\t_\t2\tpunct\t_\t_\n\n"
)


def _read_trees(path: Path) -> None:
    from phmrun.tasks.parse.vocabulary import learn_vocabulary
    from phmrun.text import conllu

    sentences = conllu.load(path)
    conllu.dumps(sentences)
    learn_vocabulary(sentences, min_count=1).encode(sentences)


def _read_parallel(path: Path) -> None:
    from phmrun.text.parallel import read_parallel

    for _ in read_parallel(path, path.with_name("target")):
        pass


def _parallel(folder: Path) -> Read:
    (folder / "target").write_text("Ein Hund .\nZwei Hunde .\nEin Satz\nnoch einer\n")
    return _from_file(_read_parallel, "source")(folder)


SIMPLE = "VBZ\tthe key to the cabinets\nVBP\tthe keys to the cabinet\n"
DEPENDENCIES = (
    "sentence\torig_sentence\tpos_sentence\tsubj\tverb\tsubj_pos\thas_rel\thas_nsubj\tverb_pos\tsubj_index\tverb_index\t"
    "n_intervening\tlast_intervening\tn_diff_intervening\tdistance\tmax_depth\tall_nouns\tnouns_up_to_verb\n"
    'the keys to the "old" cabinet are here\tx\ty\tkeys\tare\tNNS\t0\t0\tVBP\t2\t7\t1\tNN\t1\t5\t1\tNNS NN\tNNS NN\n'
)


def _read_agreement(path: Path) -> None:
    from phmrun.text.agreement import divide, read_agreement

    divide(list(read_agreement(path)))


_PAIR = {"sentence1": "A man sleeps.", "sentence2": "He rests.", "gold_label": "entailment", "label": "positive"}
PAIRS = (
    json.dumps(_PAIR) + "\n" + json.dumps({**_PAIR, "gold_label": "-"}) + "\n",
    json.dumps([_PAIR, _PAIR]),
    "gold_label\tsentence1\tsentence2\nneutral\tA dog\tA cat\n-\tx\ty\n",
    "A dog barks\tIt sleeps\tneutral\nIt rains\tIt is wet\tentails\n",
    'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\t"a ""b""\n?"\tc\t1\n',
    "1\tfirst question\tsecond question\t77\n",
    "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\n1\tA\tB\tNEUTRAL\t4.5\n",
)


def _read_pairs(path: Path) -> None:
    from phmrun.errors import PhmrunError
    from phmrun.text.nli_pairs import LABELS, read_pairs

    faults: list[PhmrunError] = []
    for form in LABELS:
        try:
            for pair in read_pairs(path, form):
                "".join(pair).encode()
        except PhmrunError as error:
            str(error).encode()
            faults.append(error)
    if len(faults) == len(LABELS):
        raise faults[0]


def _vectors(folder: Path) -> Read:
    import shutil

    from phmrun.families.sentence_classification.vectors import open_vectors

    def use(path: Path) -> None:
        cache_folder = folder / "cache"
        try:
            open_vectors(path, cache_folder).find(["the", "dog", "Satz"])
        finally:
            shutil.rmtree(cache_folder, ignore_errors=True)

    return _from_file(use)(folder)


def _read_lines(path: Path) -> None:
    from phmrun.tasks.lm.preparation import text_lines
    from phmrun.tasks.lm.vocabulary import count_words

    count_words(text_lines(path, "reading"), splitting="punctuation").encode("a b")


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


def _run(name: str) -> Callable[[Path], Read]:
    """A run directory of which one file is damaged, read as the verbs of ``phmrun runs`` do."""

    def prepare(folder: Path) -> Read:
        from phmrun.errors import PhmrunError
        from phmrun.ledger import Run
        from phmrun.ledger.card import card
        from phmrun.ledger.comparison import configurations, curves, figures, scores
        from phmrun.ledger.description import describe
        from phmrun.ledger.listing import list_runs, score_names, sort

        place = folder / "runs" / "nmt-builtin-dense-1-0123456789ab"
        place.mkdir(parents=True)
        (place / "predictions").mkdir()
        (place / "config.yaml").write_text("task: nmt\nseed: 1\nlayer: {structure: phm, n: 4}\n")
        (place / "status.json").write_text(json.dumps(STATUS))
        (place / "metrics.json").write_text(json.dumps(METRICS))
        (place / "history.jsonl").write_text(HISTORY)
        (place / "parameters.json").write_text(json.dumps(PARAMETERS))
        (place / "predictions" / "samples.json").write_text(json.dumps(SAMPLES))

        def use(path: Path) -> None:
            run = Run(place)
            found = list_runs(folder / "runs")
            for key in ("name", "state", "seconds", "step", "updated", "seed", "parameters", "task"):
                sort(found, key)
            json.dumps([one.to_json() for one in found], ensure_ascii=False).encode()
            names = score_names(found)
            if names:
                sort(found, names[0])
            card(describe(run)).encode()
            faults = []
            for ask in (
                lambda: run.status, run.metrics, run.parameters, run.samples, run.history.read, run.history.last,
                lambda: run.history.cut(10**9), lambda: configurations([run, run]), lambda: scores([run, run]),
                lambda: [curves([run], figure) for figure in figures([run])],
            ):  # fmt: skip
                try:
                    ask()
                except PhmrunError as error:
                    faults.append(error)
            if faults:
                raise faults[0]

        return _from_file(use, str((place / name).relative_to(folder)))(folder)

    return prepare


def _words() -> Any:
    from phmrun.text.words import WordVocabulary

    words = ["<pad>", "<unk>", "<s>", "</s>", "a", "b", "Satz"]
    return WordVocabulary(words, size=8, requested=100)


def _vocabulary_seeds() -> list[bytes]:
    """Each is a JSON object: the files of one vocabulary, by name, with what they hold."""
    import tempfile

    from phmrun.families.sentence_classification.vocabulary import ClassificationVocabulary
    from phmrun.tasks.lm.vocabulary import count_words
    from phmrun.tasks.parse.vocabulary import learn_vocabulary
    from phmrun.text.conllu import loads

    made = {
        "pair": _pair(),
        "labelled": ClassificationVocabulary(_words(), ["yes", "no"]),
        "stream": count_words(["a b a", "c"]),
        "treebank": learn_vocabulary(loads(TREES), min_count=1),
    }
    seeds = []
    for kind, vocabulary in made.items():
        with tempfile.TemporaryDirectory() as folder:
            vocabulary.save(Path(folder))
            files = {}
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    text = path.read_text()
                    files[str(path.relative_to(folder))] = json.loads(text) if path.suffix == ".json" else text
            seeds.append(json.dumps({"kind": kind, "files": files}).encode())
    return seeds


def _pair() -> Any:
    from phmrun.text.vocabularies import Vocabularies

    words = _words()
    return Vocabularies(words, words)


def _vocabularies(folder: Path) -> Read:
    """Unpacks the files, with checksums that fit, so that what lies behind the check is reached."""
    import hashlib
    import shutil

    from phmrun.errors import ExitCode, PhmrunError
    from phmrun.families.sentence_classification.vocabulary import ClassificationVocabulary
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
                beside = [other for other in files if other.rpartition("/")[0] == name.rpartition("/")[0]]
                for other in beside:
                    if isinstance(files[other], str):
                        value["sha256"] = hashlib.sha256(files[other].encode("utf-8", "surrogatepass")).hexdigest()
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
            from phmrun.text.conllu import loads

            treebank = TreebankVocabulary.load(place)
            treebank.encode(loads(TREES))
            _ = treebank.sizes
        else:
            pair = Vocabularies.load(place)
            pair.target.decode(pair.source.encode("a Satz ?"))
            _ = pair.sizes, pair.source.sha256

    return read


def _trained(kind: str) -> bytes:
    from phmrun.text.subwords import train_subwords

    draw = random.Random(1)
    lines = [
        " ".join(draw.choice(("der", "Hund", "sieht", "eine", "Katze", "Haus", "bunte")) for _ in range(6))
        for _ in range(300)
    ]
    return train_subwords(lines, kind=kind, size=60)._model


def _subwords(folder: Path) -> Read:
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


def _checkpoint_seeds() -> list[bytes]:
    import torch

    weights = _network().state_dict()
    random_states = {"torch": torch.get_rng_state(), "cuda": [], "python": list(random.getstate())[:1]}
    full = {
        "state_dict": weights,
        "global_step": 10,
        "callbacks": {"Randomness": {"states": random_states}},
        "loops": {},
    }
    return [
        _saved({"state_dict": weights, "global_step": 10}),
        _saved(full),
        _saved({"global_step": 10}),
        _saved([1]),
        _saved({"state_dict": 3}),
    ]


def _checkpoints(folder: Path) -> Read:
    from phmrun.engine.checkpoints import averaged_weights, load_weights

    network = _network()

    def use(path: Path) -> None:
        load_weights(network, averaged_weights([path, path]), path)

    return _from_file(use, "last.ckpt")(folder)


def _stores(folder: Path) -> Read:
    """The files of a store behind each other, parted by a line."""
    import shutil

    from phmrun.errors import ExitCode, PhmrunError
    from phmrun.families.sentence_classification.items import ItemStore
    from phmrun.tasks.lm.store import StreamStore
    from phmrun.text.store import TokenStore

    place = folder / "store"

    def read(content: bytes) -> None:
        shutil.rmtree(place, ignore_errors=True)
        for each in content.split(MARK):
            name, _, rest = each.partition(b"\n")
            if name.decode("latin-1") in _STORE_FILES:
                path = place / name.decode()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(rest)
        faults = 0
        for open_store in (
            lambda: TokenStore(place / "sentence-1"),
            lambda: StreamStore(place),
            lambda: ItemStore(place, 1),
        ):
            try:
                store = open_store()
                _use_store(store)
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
    "sentence-1/store.json",
    "sentence-1/tokens.bin",
    "sentence-1/offsets.bin",
    "store.json",
    "tokens.bin",
    "labels.npy",
)


def _store_seeds() -> list[bytes]:
    import tempfile

    import numpy as np

    from phmrun.tasks.lm.store import write_stream
    from phmrun.text.store import TokenStoreWriter

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with TokenStoreWriter(folder / "sentence-1", vocabulary_size=100) as writer:
            for sentence in ([4, 5, 6], [7], [8, 9]):
                writer.append(sentence)
        write_stream(folder, [["a", "b", "a"]], {"a": 1, "b": 2}, unknown=0, vocabulary_size=100)
        np.save(folder / "labels.npy", np.array([0, 1, 1]))
        return [MARK.join(file.encode() + b"\n" + (folder / file).read_bytes() for file in _STORE_FILES)]


def _archive_seeds() -> list[bytes]:
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


def _archives(folder: Path) -> Read:
    from phmrun.datasets.archives import extract, is_archive, members, unpacked

    def use(path: Path) -> None:
        is_archive(path)
        members(path)
        with unpacked(path, "folder/train.txt") as stream:
            while stream.read(1 << 16):
                pass
        extract(path, "folder/train.txt", folder / "out", limit=1 << 20)

    return _from_file(use, "archive")(folder)


def _zipped_text(folder: Path) -> Read:
    return _from_file(_read_lines, "text.gz")(folder)


def _gzip_seeds() -> list[bytes]:
    import gzip

    return [gzip.compress(b"a line of text\nand another\n" * 20, mtime=0)]


def _fixed(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]


_KEYS = (
    b"layer",
    b"structure: phm",
    b"n: 3",
    b"preset: base",
    b"seeds: 1000000000",
    b"tasks",
    b"grid",
    b"precision: [32]",
)
READERS = {
    reader.name: reader
    for reader in (
        Reader("config", "text", _config_seeds, _from_file(_read_config, "config.yaml"), _KEYS, structured=True),
        Reader("sweep", "text", _sweep_seeds, _from_file(_read_sweep, "sweep.yaml"), _KEYS, structured=True),
        Reader("table", "text", _table_seeds, _from_file(_read_table, "table.yaml"), _KEYS, structured=True),
        Reader("set", "text", _setting_seeds, _read_setting, (b"=", b"[32]", b"{structure: phm}", b"1e30")),
        Reader(
            "conllu", "text", _fixed(TREES, TREES * 2), _from_file(_read_trees, "trees.conllu"), (b"1-2", b"2.1", b"0")
        ),
        Reader("parallel", "text", _fixed("A dog .\nTwo dogs .\nA sentence\none more\n"), _parallel),
        Reader("agreement", "text", _fixed(SIMPLE, DEPENDENCIES), _from_file(_read_agreement, "numpred.test.3")),
        Reader("nli", "text", _fixed(*PAIRS), _from_file(_read_pairs, "pairs"), (b"entailment", b"-"), structured=True),
        Reader("vectors", "text", _fixed("the 1.0 2.5 -3\ndog 0 1e-3 .5\n", "2 3\na b 1 2 3\nc 4 5 6\n"), _vectors),
        Reader("text", "text", _fixed("a line of text\nand another, longer one .\n"), _from_file(_read_lines)),
        Reader("status", "text", _fixed(json.dumps(STATUS)), _run("status.json"), structured=True),
        Reader("metrics", "text", _fixed(json.dumps(METRICS)), _run("metrics.json"), structured=True),
        Reader("history", "text", _fixed(HISTORY, HISTORY.splitlines()[0]), _run("history.jsonl"), structured=True),
        Reader("run-config", "text", _config_seeds, _run("config.yaml"), structured=True),
        Reader("parameters", "text", _fixed(json.dumps(PARAMETERS)), _run("parameters.json"), structured=True),
        Reader("samples", "text", _fixed(json.dumps(SAMPLES)), _run("predictions/samples.json"), structured=True),
        Reader("vocabulary", "text", _vocabulary_seeds, _vocabularies, structured=True),
        Reader("sentencepiece", "binary", lambda: [_trained("unigram"), _trained("bpe")], _subwords),
        Reader("checkpoint", "binary", _checkpoint_seeds, _checkpoints),
        Reader("store", "binary", _store_seeds, _stores),
        Reader("archive", "binary", _archive_seeds, _archives),
        Reader("gzip", "binary", _gzip_seeds, _zipped_text),
    )
}
"""By their names."""
