"""Running text in the token store: ids, counts as the literature has them, the cache, and memory."""

import gzip
import os
from pathlib import Path

import pytest

from phmrun.errors import PhmrunError
from phmrun.tasks.lm.preparation import StreamSettings, prepare_stream
from phmrun.text.store import StreamStore

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
    counts = {"lines": 3, "characters": len(TRAIN), "tokens": 9, "types": 4, "unknown_rate": 0}
    assert splits["train"] == {**counts, "mean_length": 3, "max_length": 4}
    assert splits["dev"]["unknown_rate"] == pytest.approx(1 / 5)


def test_unreadable_and_missing_text_is_refused(files, tmp_path):
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


REAL = Path(os.environ.get("PHMRUN_DATA", "."))


@pytest.mark.long
@pytest.mark.parametrize(
    ("folder", "name", "words", "tokens"),
    [
        ("ptb", "ptb.{}.txt", 10_000, (929_589, 73_760, 82_430)),
        ("wikitext-2", "wiki.{}.tokens.gz", 33_278, (2_088_628, 217_646, 245_569)),
    ],
)
def test_counts_of_the_literature(folder, name, words, tokens, tmp_path):
    splits = {"train": "train", "dev": "valid", "test": "test"}
    files = {split: REAL / folder / name.format(theirs) for split, theirs in splits.items()}
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
