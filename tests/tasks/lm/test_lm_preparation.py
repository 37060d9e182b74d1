"""Running text in the token store: ids, counts as the literature has them, the cache, and memory."""

import gzip
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest

from phmrun.errors import PhmrunError
from phmrun.tasks.lm import preparation as stream_preparation
from phmrun.tasks.lm.preparation import StreamSettings, StreamStore, prepare_stream, write_stream

TRAIN = "b a a\n\nc b a\n"
DEV = "a d\nb\n"


@pytest.fixture
def files(tmp_path):
    paths = {"train": tmp_path / "train.txt", "dev": tmp_path / "dev.txt.gz"}
    paths["train"].write_text(TRAIN)
    paths["dev"].write_bytes(gzip.compress(DEV.encode()))
    return paths


def test_ids_and_counts(files, tmp_path):
    prepared = prepare_stream(files, StreamSettings(), cache=tmp_path / "cache")
    assert prepared.vocabulary.tokens == ["<eos>", "a", "b", "c", "<unk>"]
    assert prepared.stores["train"].tokens.tolist() == [2, 1, 1, 0, 0, 3, 2, 1, 0]
    assert prepared.stores["dev"].tokens.tolist() == [1, 4, 0, 2, 0]
    splits = prepared.statistics["splits"]
    assert splits["train"] == {
        "lines": 3,
        "characters": len(TRAIN),
        "tokens": 9,
        "unknown": 0,
        "types": 4,
        "unknown_rate": 0,
    }
    assert splits["dev"]["unknown_rate"] == pytest.approx(1 / 5)


def test_prepared_once_per_content_and_settings(files, tmp_path, monkeypatch):
    first = prepare_stream(files, StreamSettings(), cache=tmp_path / "cache")
    with monkeypatch.context() as patch:
        patch.setattr(stream_preparation, "count_words", None)
        again = prepare_stream(files, StreamSettings(), cache=tmp_path / "cache")
    assert again.path == first.path
    other = prepare_stream(files, StreamSettings(multiple_of=8), cache=tmp_path / "cache")
    assert other.path != first.path
    assert len(other.vocabulary) == 8
    files["dev"].write_text("b\n")
    assert prepare_stream(files, StreamSettings(), cache=tmp_path / "cache").path != first.path


def test_stores_travel_by_their_path(files, tmp_path):
    store = prepare_stream(files, StreamSettings(), cache=tmp_path / "cache").stores["train"]
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301  our own bytes
    assert len(pickle.dumps(store)) < 300
    assert np.array_equal(copy.tokens, store.tokens)


@pytest.mark.parametrize(("size", "width"), [(1 << 16, 2), ((1 << 16) + 1, 4)])
def test_bytes_of_a_token(size, width, tmp_path):
    counts = write_stream(tmp_path, [["a", "b"], ["z"]], {"a": 0, "b": size - 1}, unknown=1, vocabulary_size=size)
    assert counts == {"tokens": 3, "unknown": 1, "types": 3}
    assert (tmp_path / "tokens.bin").stat().st_size == 3 * width
    assert StreamStore(tmp_path).tokens.tolist() == [0, size - 1, 1]


def test_unreadable_and_missing_text_is_refused(files, tmp_path):
    with pytest.raises(PhmrunError, match="no training split"):
        prepare_stream({"dev": files["dev"]}, StreamSettings(), cache=tmp_path)
    with pytest.raises(PhmrunError, match="does not exist"):
        prepare_stream({"train": tmp_path / "none"}, StreamSettings(), cache=tmp_path)
    files["dev"].write_bytes(b"a\n\xff\n")
    with pytest.raises(PhmrunError, match="not valid UTF-8") as caught:
        prepare_stream(files, StreamSettings(), cache=tmp_path / "cache")
    assert str(caught.value.where).endswith(":2")
    assert not list((tmp_path / "cache").glob("*/statistics.json"))
    (tmp_path / "store.json").write_text('{"tokens": 4, "dtype": "<u2"}')
    with pytest.raises(PhmrunError, match="missing or damaged"):
        StreamStore(tmp_path)


def test_memory_does_not_grow_with_the_text(tmp_path):
    """A text of ten times the size takes less than a fifth of that size more memory."""
    line = " ".join(f"w{number}" for number in range(20)) + "\n"
    peaks = []
    for times in (20_000, 200_000):
        path = tmp_path / f"{times}.txt"
        with path.open("w") as file:
            for _ in range(times):
                file.write(line)
        prepare_stream({"train": path}, StreamSettings(), cache=tmp_path / "cache")
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    assert peaks[1] - peaks[0] < path.stat().st_size / 5


REAL = Path(os.environ.get("PHMRUN_DATA", "."))


@pytest.mark.parametrize(
    ("folder", "names", "words", "tokens"),
    [
        ("ptb", ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"), 10_000, (929_589, 73_760, 82_430)),
        (
            "wikitext-2",
            ("wiki.train.tokens.gz", "wiki.valid.tokens.gz", "wiki.test.tokens.gz"),
            33_278,
            (2_088_628, 217_646, 245_569),
        ),
    ],
)
def test_counts_of_the_literature(folder, names, words, tokens, tmp_path):
    files = {split: REAL / folder / name for split, name in zip(("train", "dev", "test"), names, strict=True)}
    if not all(path.is_file() for path in files.values()):
        pytest.skip(f"{folder} is not here")
    prepared = prepare_stream(files, StreamSettings(), cache=tmp_path)
    assert len(prepared.vocabulary) == words
    assert tuple(len(prepared.stores[split]) for split in files) == tokens
    assert all((store.tokens == prepared.vocabulary.end).sum() > 0 for store in prepared.stores.values())


@pytest.mark.parametrize("splitting", ["space", "punctuation"])
def test_end_of_line_words_of_the_file_are_counted_once(files, tmp_path, splitting):
    settings = StreamSettings(splitting=splitting)
    plain = prepare_stream(files, settings, cache=tmp_path / "cache")
    files["train"].write_text("".join(f"{line} <eos> \n" for line in TRAIN.splitlines()))
    marked = prepare_stream(files, settings, cache=tmp_path / "cache")
    assert marked.stores["train"].tokens.tolist() == plain.stores["train"].tokens.tolist()
    assert marked.statistics["splits"]["train"] == {**plain.statistics["splits"]["train"], "characters": 13}
    assert marked.vocabulary.encode("a b <eos>") == marked.vocabulary.encode("a b")
    assert marked.vocabulary.encode("<eos> a b") != marked.vocabulary.encode("a b")
