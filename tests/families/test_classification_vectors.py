"""Word vectors: the numbers of the file, found by word, read once; every fault with file and line."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sentence_classification.vectors import open_vectors

LINES = ["the 0.5 -1 2e-1", "king 1 2 3", "King 4 5 6", ". . . 7 8 9", "at name@x.y 0 0 1"]


@pytest.fixture
def write(tmp_path):
    def write(lines, name="vectors.txt"):
        text = "".join(f"{line}\n" for line in lines).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
@pytest.mark.parametrize("header", [[], ["5 3"]])
def test_found_by_word(write, tmp_path, name, header):
    vectors = open_vectors(write(header + LINES, name), tmp_path / "cache")
    assert (vectors.words, vectors.width) == (5, 3)
    actual = vectors.find(["KING", "queen", "King", "the", ". . .", "at name@x.y", "king"])
    assert actual.places.tolist() == [0, 2, 3, 4, 5, 6]
    expected = [[1, 2, 3], [4, 5, 6], [0.5, -1, 0.2], [7, 8, 9], [0, 0, 1], [1, 2, 3]]
    np.testing.assert_array_equal(actual.vectors, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("word 1 2", "not a word and 3 finite numbers"),
        ("word", "not a word and 3 finite numbers"),
        ("", "not a word and 3 finite numbers"),
        (" 1 2 3", "not a word and 3 finite numbers"),
        ("word 1 x 3", "could not convert string to float: 'x'"),
        ("word 1 nan 3", "not a word and 3 finite numbers"),
        ("word 1 -inf 3", "not a word and 3 finite numbers"),
        ("word 1 1e39 3", "not a word and 3 finite numbers"),
        ("word 1 0x1 3", "could not convert string to float: '0x1'"),
    ],
)
@pytest.mark.parametrize("before", [1, 3000])
def test_faults_are_placed(write, tmp_path, line, what, before):
    path = write([f"w{n} 1 2 3" for n in range(before)] + [line, "more 1 2 3"])
    with pytest.raises(PhmrunError, match=what) as caught:
        open_vectors(path, tmp_path / "cache")
    assert caught.value.where == f"{path}:{before + 1}"
    assert caught.value.code is ExitCode.DATA
    assert [entry.suffix for entry in (tmp_path / "cache").iterdir()] == [".lock"]


numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
words = st.text(st.characters(categories=["L", "P", "S"]), min_size=1, max_size=6).filter(lambda w: w.split() == [w])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(words, st.lists(numbers, min_size=2, max_size=2), min_size=1, max_size=12))
def test_any_words_and_numbers(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("vectors")
    path = folder / "v.txt"
    path.write_text("".join(f"{word} {a!r} {b!r}\n" for word, (a, b) in table.items()), encoding="utf-8")
    actual = open_vectors(path, folder).find(list(table))
    assert actual.places.tolist() == list(range(len(table)))
    np.testing.assert_array_equal(actual.vectors, np.array(list(table.values()), dtype=np.float32))


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="needs PHMRUN_DATA")
@pytest.mark.parametrize(
    ("name", "words", "width"), [("glove.6B.50d.txt", 5_050, 50), ("glove.6B.300d.sample.txt.gz", 100, 300)]
)
def test_published_vectors(tmp_path, name, words, width):
    vectors = open_vectors(Path(os.environ["PHMRUN_DATA"]) / "glove" / name, tmp_path)
    assert (vectors.words, vectors.width) == (words, width)
    assert vectors.find(["The", "of"]).vectors.shape == (2, width)
