"""Preparation: the stores hold the text, once per content, whatever interrupts it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from phmrun.engine.data import odd_figures
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sequence_to_sequence import preparation
from phmrun.families.sequence_to_sequence.config import VocabularyConfig
from phmrun.families.sequence_to_sequence.preparation import prepare_parallel
from phmrun.text.lines import read_parallel
from phmrun.text.vocabulary import UNK

WORDS = ["the", "a", "big", "small", "old", "red", "house", "tree", "dog", "cat", "sees", "likes", "near", "under"]
SMALL = VocabularyConfig(size=80, multiple_of=1)
TRAIN = [" ".join(WORDS[(start * step) % len(WORDS)] for step in range(1, 3 + start % 9)) for start in range(1, 300)]


def write(folder: Path, name: str, source: list[str], target: list[str]) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    paths = folder / f"{name}.en", folder / f"{name}.de"
    for path, lines in zip(paths, (source, target), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


@pytest.fixture
def files(tmp_path):
    return {
        "train": write(tmp_path / "raw", "train", TRAIN, [line.upper() for line in TRAIN]),
        "dev": write(tmp_path / "raw", "dev", ["the dog", "the new cat " * 9], ["THE DOG", "THE NEW CAT"]),
    }


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word"])
@pytest.mark.parametrize("joint", [True, False])
def test_the_stores_hold_the_text(files, cache, kind, joint):
    prepared = prepare_parallel(files, VocabularyConfig(kind=kind, size=80, joint=joint, multiple_of=3), cache=cache)
    assert prepared.vocabulary.joint is joint
    pairs = list(read_parallel(*files["train"]))
    store = prepared.stores["train"]
    assert len(store.source) == len(store.target) == len(pairs)
    for index, (source, target) in enumerate(pairs):
        assert prepared.vocabulary.source.decode(store.source[index]) == source
        assert prepared.vocabulary.target.decode(store.target[index]) == target
    assert len(prepared.vocabulary.target) % 3 == 0


def test_statistics_are_those_of_a_count_by_hand(files, cache):
    settings = VocabularyConfig(kind="word", size=200, joint=False, multiple_of=1)
    prepared = prepare_parallel(files, settings, max_length=8, cache=cache)
    assert json.loads((prepared.path / "statistics.json").read_text()) == prepared.statistics
    kept = [line.split() for line in TRAIN if len(line.split()) <= 8]
    train = prepared.statistics["splits"]["train"]
    assert (train["sentences"], train["dropped"]) == (len(kept), len(TRAIN) - len(kept))
    tokens = sum(map(len, kept))
    assert train["source"] == {
        "tokens": tokens,
        "mean_length": round(tokens / len(kept), 3),
        "max_length": max(map(len, kept)),
        "unknown_rate": 0.0,
        "types": len({word for words in kept for word in words}),
    }
    dev = prepared.statistics["splits"]["dev"]
    assert (dev["sentences"], dev["dropped"]) == (2, 0)
    assert dev["source"]["unknown_rate"] == pytest.approx(9 / 29)
    assert UNK in prepared.stores["dev"].source[1]
    assert prepared.statistics["vocabulary"]["source"]["requested"] == 200


@pytest.mark.parametrize("change", ["text", "size", "kind", "joint", "multiple_of", "max_length"])
def test_another_content_or_setting_is_another_preparation(files, cache, change):
    settings, length = VocabularyConfig(kind="bpe", size=80, multiple_of=1), 99
    first = prepare_parallel(files, settings, max_length=length, cache=cache)
    other = {"size": 70, "kind": "unigram", "joint": False, "multiple_of": 2}
    if change == "text":
        write(files["dev"][0].parent, "dev", ["the cat"], ["THE CAT"])
    elif change == "max_length":
        length = 98
    else:
        settings = settings.model_copy(update={change: other[change]})
    second = prepare_parallel(files, settings, max_length=length, cache=cache)
    assert second.path != first.path
    assert len(second.stores["dev"].source) == (1 if change == "text" else 2)


def test_given_vocabularies_are_used_and_no_training_split_is_needed(files, cache):
    ours = prepare_parallel(files, SMALL, cache=cache).vocabulary
    prepared = prepare_parallel({"dev": files["dev"]}, vocabularies=ours, cache=cache)
    assert prepared.vocabulary.source.sha256 == ours.source.sha256
    assert prepared.vocabulary.target.decode(prepared.stores["dev"].target[0]) == "THE DOG"
    wider = prepare_parallel(files, SMALL.model_copy(update={"multiple_of": 64}), cache=cache).vocabulary
    assert prepare_parallel({"dev": files["dev"]}, vocabularies=wider, cache=cache).vocabulary.sizes == wider.sizes
    assert wider.source.sha256 == ours.source.sha256 != wider.source.mark


@pytest.mark.parametrize("fault", ["empty line", "too long"])
def test_a_fault_leaves_nothing_behind(files, cache, fault):
    if fault == "empty line":
        files["dev"][0].write_text("one\n\n")
    with pytest.raises(PhmrunError) as caught:
        prepare_parallel(files, SMALL, max_length=0 if fault == "too long" else 99, cache=cache)
    assert caught.value.code is ExitCode.DATA
    assert not cache.exists() or {path.suffix for path in cache.iterdir()} <= {".lock"}


def run(files, cache, *, prelude=""):
    code = (
        "import sys, logging, pathlib; logging.basicConfig(level=logging.INFO)\n"
        "from phmrun.families.sequence_to_sequence import preparation\n"
        f"{prelude}\n"
        "paths = [pathlib.Path(p) for p in sys.argv[2:]]\n"
        "settings = preparation.VocabularyConfig(size=80, multiple_of=1)\n"
        "prepared = preparation.prepare_parallel({'train': tuple(paths)}, settings, cache=pathlib.Path(sys.argv[1]))\n"
        "print(prepared.path)"
    )
    command = [sys.executable, "-c", code, str(cache), *map(str, files["train"])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


STALL = """
import time
original = preparation._encode
def slow(*arguments):
    result = original(*arguments)
    print("encoded", flush=True)
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.01)
    return result
preparation._encode = slow
"""


def test_a_second_process_waits_for_the_first(files, cache):
    go = cache.with_name("go")
    first = run(files, cache, prelude=STALL.format(go=str(go)))
    assert first.stdout.readline() == "encoded\n"
    second = run(files, cache, prelude="preparation._learn = None")
    go.touch()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert out == first.communicate(timeout=60)[0]


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="PHMRUN_DATA is not set")
def test_multi30k(cache):
    folder = Path(os.environ["PHMRUN_DATA"]) / "multi30k"
    if not folder.is_dir():
        pytest.skip("multi30k is not here")
    names = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
    files = {split: (folder / f"{name}.en.gz", folder / f"{name}.de.gz") for split, name in names.items()}
    prepared = prepare_parallel(files, VocabularyConfig(size=1000, multiple_of=1), cache=cache)
    assert [len(prepared.stores[split].source) for split in files] == [29_000, 1_014, 1_000]
    assert len(prepared.vocabulary.source) == 1000
    for (_, target), ids in zip(read_parallel(*files["test"]), prepared.stores["test"].target, strict=True):
        assert prepared.vocabulary.target.decode(ids) == " ".join(target.split(" ")).strip(" ").replace("  ", " ")


@pytest.mark.parametrize(("kind", "reserved"), [("unigram", 4), ("bpe", 4), ("word", 2)])
def test_lines_with_reserved_characters_are_counted(files, cache, kind, reserved):
    lines = ["a ▅ b", "a▁b", "the <unk> dog", "a </s> cat", "a < unk > b", "⁇ _"]
    files["train"] = write(cache.parent / "raw", "train", [*TRAIN, *lines], [*TRAIN, *lines])
    statistics = prepare_parallel(files, SMALL.model_copy(update={"kind": kind, "size": 120}), cache=cache).statistics
    assert statistics["splits"]["train"]["reserved"] == reserved
    assert "reserved" not in statistics["splits"]["dev"]
    assert any(f"train: {reserved} lines hold characters" in text for text in odd_figures(statistics))


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_of_unigrams_is_learned_from_a_sample(files, cache, kind, monkeypatch):
    monkeypatch.setitem(preparation.SAMPLE, "unigram", 1000)
    lines = ["ßüéçñ", *["the big dog"] * 300]  # the first line is never in a smaller sample
    files["train"] = write(cache.parent / "raw", "train", lines, lines)
    prepared = prepare_parallel(files, VocabularyConfig(kind=kind, size=60, multiple_of=1), cache=cache)
    assert (prepared.statistics["splits"]["train"]["source"]["unknown_rate"] > 0) is (kind == "unigram")
