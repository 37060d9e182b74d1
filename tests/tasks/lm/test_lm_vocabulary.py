"""Words of running text: how they are counted, ordered, saved, and what becomes of unknown ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.errors import PhmrunError
from phmrun.tasks.lm.vocabulary import END, UNKNOWN, StreamVocabulary, count_words

TEXT = ["the cat saw the dog", "", " the dog saw a bird "]


def test_words_by_falling_frequency_then_alphabet():
    vocabulary = count_words(TEXT)
    counts = [("<eos>", 3), ("the", 3), ("dog", 2), ("saw", 2), ("a", 1), ("bird", 1), ("cat", 1), ("<unk>", 0)]
    assert list(zip(vocabulary.tokens, vocabulary.counts, strict=True)) == counts
    assert vocabulary.sizes == (8,)


def test_punctuation_is_split_off_where_asked_for():
    vocabulary = count_words(["The cat, seen."], splitting="punctuation")
    assert set(vocabulary.tokens) == {"The", "cat", ",", "seen", ".", END, UNKNOWN}
    assert vocabulary.decode(vocabulary.encode("cat,seen.")) == "cat , seen ."


def test_decoding_breaks_lines_where_they_end():
    vocabulary = count_words(TEXT, multiple_of=20)
    the, dog, end = (vocabulary.ids[word] for word in ("the", "dog", END))
    assert vocabulary.decode([the, dog, end, the, 19, dog]) == "the dog\nthe dog"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=20))
def test_saved_words_are_read_back(tmp_path_factory, lines):
    lines = [*(line.replace("\n", " ").replace(END, "") for line in lines), "word"]
    directory = tmp_path_factory.mktemp("vocabulary")
    vocabulary = count_words(lines, multiple_of=4)
    vocabulary.save(directory)
    loaded = StreamVocabulary.load(directory)
    assert (loaded.tokens, loaded.counts, loaded.sizes) == (vocabulary.tokens, vocabulary.counts, vocabulary.sizes)
    assert loaded.sha256 == vocabulary.sha256
    for line in lines:
        assert loaded.decode(loaded.encode(line)) == " ".join(line.split())


def test_damage_is_noticed(tmp_path):
    count_words(TEXT).save(tmp_path)
    words = tmp_path / "words.tsv"
    words.write_text(words.read_text().replace("cat", "cot"))
    with pytest.raises(PhmrunError, match="not the one saved") as caught:
        StreamVocabulary.load(tmp_path)
    assert caught.value.code == 3
    (tmp_path / "vocabulary.json").write_text(json.dumps({"size": 8}))
    with pytest.raises(PhmrunError, match="missing or damaged"):
        StreamVocabulary.load(tmp_path)
