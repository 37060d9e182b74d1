"""Vocabularies of every kind: ids, reversibility, sizes, saving, determinism."""

import json
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.subwords import PieceVocabulary
from phmrun.text.vocabularies import load_vocabulary, train_vocabulary
from phmrun.text.vocabulary import SPECIALS, Kind

KINDS = get_args(Kind)

TEXT = "the a big small old house tree dog cat sees near Straße über naïve , !"
WORDS = TEXT.split()
LINES = [" ".join(WORDS[(start * step) % len(WORDS)] for step in range(1, 9)) for start in range(1, 400)]


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request):
    return train_vocabulary(LINES, kind=request.param, size=60)


def test_the_text_comes_back(vocabulary):
    for line in LINES[:50]:
        ids = vocabulary.encode(line)
        assert vocabulary.decode(ids) == line
        assert all(3 < token < vocabulary.entries for token in ids)
    many = LINES * 3  # enough for several threads
    assert vocabulary.encode_all(many) == [vocabulary.encode(line) for line in LINES] * 3


def test_saved_and_loaded_it_is_the_same(vocabulary, tmp_path):
    vocabulary.save(tmp_path)
    loaded = load_vocabulary(tmp_path)
    assert (loaded.kind, len(loaded), loaded.entries) == (vocabulary.kind, len(vocabulary), vocabulary.entries)
    assert loaded.sha256 == vocabulary.sha256
    assert loaded.encode_all(LINES) == vocabulary.encode_all(LINES)


def test_a_changed_model_file_is_refused(vocabulary, tmp_path):
    vocabulary.save(tmp_path)
    model = next(path for path in tmp_path.iterdir() if path.name != "vocabulary.json")
    model.write_bytes(model.read_bytes() + b"x")
    with pytest.raises(PhmrunError, match="not the one saved") as caught:
        load_vocabulary(tmp_path)
    assert caught.value.code is ExitCode.DATA


@pytest.mark.parametrize("content", [None, "{", "[]", '{"format": 99, "kind": "word"}'])
def test_a_directory_without_a_readable_vocabulary_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "vocabulary.json").write_text(content)
    with pytest.raises(PhmrunError) as caught:
        load_vocabulary(tmp_path)
    assert caught.value.code is ExitCode.DATA


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("multiple_of", [7, 16])
def test_padding_makes_the_size_divisible_and_changes_nothing_else(kind, multiple_of, vocabulary):
    padded = train_vocabulary(LINES, kind=kind, size=60, multiple_of=multiple_of)
    assert len(padded) % multiple_of == 0
    assert 0 <= len(padded) - padded.entries < multiple_of
    assert padded.sha256 == train_vocabulary(LINES, kind=kind, size=60).sha256


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_too_small_for_the_alphabet_names_the_least_size(kind):
    with pytest.raises(PhmrunError) as caught:
        train_vocabulary(LINES, kind=kind, size=12)
    assert caught.value.code is ExitCode.DATA
    least = int("".join(filter(str.isdigit, caught.value.valid[0])))
    assert train_vocabulary(LINES, kind=kind, size=least).entries == least


def test_nothing_is_printed_and_another_process_learns_the_same(vocabulary, tmp_path):
    (tmp_path / "lines.json").write_text(json.dumps(LINES))
    code = (
        "import json, sys; from phmrun.text.vocabularies import train_vocabulary;"
        f"print(train_vocabulary(json.load(open(sys.argv[1])), kind={vocabulary.kind!r}, size=60).sha256)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "lines.json"], capture_output=True, text=True)
    assert done.stdout.strip() == vocabulary.sha256
    assert not done.stderr


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
def test_subwords_keep_any_text_within_their_alphabet(text):
    line = " ".join(text.replace("▁", " ").replace("<", "").split(" ")).strip(" ") or "x"  # no <s>, a token's name
    while "  " in line:
        line = line.replace("  ", " ")
    vocabulary = train_vocabulary([line, "x"], kind="bpe", size=500)
    assert vocabulary.decode(vocabulary.encode(line)) == line


def test_pieces_of_either_side_are_decoded_as_by_marian(tmp_path):
    transformers = pytest.importorskip("transformers")
    sides = [train_vocabulary(lines, kind="unigram", size=60) for lines in (LINES, [f"zwei Räder {n}" for n in "ABC"])]
    pieces = [*SPECIALS, *dict.fromkeys(piece for side in sides for piece in side.tokens[len(SPECIALS) :])]
    paths = [tmp_path / name for name in ("source.spm", "target.spm", "vocab.json")]
    numbers = json.dumps({piece: number for number, piece in enumerate(pieces)})
    for path, content in zip(paths, [*(side.model for side in sides), numbers.encode()], strict=True):
        path.write_bytes(content)
    theirs = transformers.MarianTokenizer(*map(str, paths))
    target = PieceVocabulary(sides[1].model, pieces)
    assert target.decode(target.encode("zwei Räder A")) == "zwei Räder A"

    @given(st.lists(st.integers(len(SPECIALS), len(pieces) - 1), max_size=8))
    def check(ids):
        assert target.decode(ids) == theirs.decode(ids, skip_special_tokens=True)

    check()
