"""Vocabularies of every kind: ids, reversibility, sizes, saving, determinism."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.vocabularies import Vocabularies, load_vocabulary, train_vocabulary
from phmrun.text.vocabulary import BOS, EOS, PAD, UNK, Kind

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


def test_decoding_stops_at_the_end_and_skips_specials(vocabulary):
    ids = vocabulary.encode("the big house")
    assert vocabulary.decode([BOS, *ids, EOS, *ids]) == "the big house"
    assert vocabulary.decode([PAD, *ids, PAD, len(vocabulary) + 5]) == "the big house"
    assert vocabulary.decode([]) == ""


def test_unknown_text_is_unknown_and_visible(vocabulary):
    ids = vocabulary.encode("the 漢 house")
    assert UNK in ids
    assert vocabulary.decode(ids) in ("the ⁇ house", "the <unk> house")


def test_specials_spelt_in_the_text_are_not_specials(vocabulary):
    for spelt in ("<pad>", "<s>", "</s>"):
        assert not {PAD, BOS, EOS} & set(vocabulary.encode(f"the {spelt} house"))


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


def test_a_model_whose_unknown_piece_is_no_text_is_refused(tmp_path):
    vocabulary = train_vocabulary(LINES, kind="bpe", size=60)
    vocabulary.save(tmp_path)
    unknown_surface = b"\x12\x04\xe2\x02\x01\xea"  # of the trainer's specification: one byte, which is no UTF-8
    model = vocabulary.model + unknown_surface
    (tmp_path / "subwords.model").write_bytes(model)
    description = json.loads((tmp_path / "vocabulary.json").read_text())
    description["sha256"] = hashlib.sha256(model).hexdigest()
    (tmp_path / "vocabulary.json").write_text(json.dumps(description))
    with pytest.raises(PhmrunError, match="model file is missing or damaged") as caught:
        load_vocabulary(tmp_path)
    assert caught.value.code is ExitCode.DATA


def test_an_empty_model_is_refused_and_sentencepiece_says_nothing(tmp_path, capfd):
    train_vocabulary(LINES, kind="bpe", size=60).save(tmp_path)
    (tmp_path / "subwords.model").write_bytes(b"")
    description = json.loads((tmp_path / "vocabulary.json").read_text())
    (tmp_path / "vocabulary.json").write_text(json.dumps({**description, "sha256": hashlib.sha256(b"").hexdigest()}))
    with pytest.raises(PhmrunError, match="model file is missing or damaged"):
        load_vocabulary(tmp_path)
    assert capfd.readouterr() == ("", "")


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_size_beyond_the_data_is_reduced_and_known(kind):
    vocabulary = train_vocabulary(LINES, kind=kind, size=50_000)
    assert vocabulary.requested == 50_000
    assert len(vocabulary) == vocabulary.entries < 1000


def test_word_order_is_by_frequency_then_alphabet():
    lines = ["b b b a c c", "<unk> d </s> a"]
    vocabulary = train_vocabulary(lines, kind="word", size=8)
    counts = Counter(word for line in lines for word in line.split() if word not in ("<unk>", "</s>"))
    expected = sorted(counts, key=lambda word: (-counts[word], word))[:4]
    assert [vocabulary.decode([token]) for token in range(4, 8)] == expected
    assert vocabulary.encode("b <unk> z") == [4, UNK, UNK]


def test_rare_words_are_unknown():
    vocabulary = train_vocabulary(["a a b"], kind="word", size=100, min_frequency=2)
    assert vocabulary.encode("a b") == [4, UNK]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_too_small_for_the_alphabet_names_the_least_size(kind):
    with pytest.raises(PhmrunError) as caught:
        train_vocabulary(LINES, kind=kind, size=12)
    assert caught.value.code is ExitCode.DATA
    least = int("".join(filter(str.isdigit, caught.value.valid[0])))
    assert train_vocabulary(LINES, kind=kind, size=least).entries == least


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_refused(kind):
    with pytest.raises(PhmrunError, match="no text"):
        train_vocabulary([], kind=kind, size=60)


def test_nothing_is_printed_and_another_process_learns_the_same(vocabulary, tmp_path):
    (tmp_path / "lines.json").write_text(json.dumps(LINES))
    code = (
        "import json, sys; from phmrun.text.vocabularies import train_vocabulary;"
        f"print(train_vocabulary(json.load(open(sys.argv[1])), kind={vocabulary.kind!r}, size=60).sha256)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "lines.json"], capture_output=True, text=True)
    assert done.stdout.strip() == vocabulary.sha256
    assert not done.stderr


@pytest.mark.parametrize("joint", [True, False])
def test_a_pair_is_saved_and_loaded(tmp_path, joint):
    source = train_vocabulary(LINES, kind="bpe", size=60)
    target = source if joint else train_vocabulary(LINES[::2], kind="word", size=20)
    Vocabularies(source, target).save(tmp_path)
    loaded = Vocabularies.load(tmp_path)
    assert loaded.joint is joint
    assert (loaded.source.sha256, loaded.target.sha256) == (source.sha256, target.sha256)
    assert {path.suffix for path in Path(tmp_path).rglob("*.*")} <= {".json", ".model", ".txt"}


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
def test_subwords_keep_any_text_within_their_alphabet(text):
    line = " ".join(text.replace("▁", " ").split(" ")).strip(" ") or "x"
    while "  " in line:
        line = line.replace("  ", " ")
    vocabulary = train_vocabulary([line, "x"], kind="bpe", size=500)
    assert vocabulary.decode(vocabulary.encode(line)) == line
