"""Treebanks as numbers: the vocabulary, its file, and batches."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_treebank import trees_of

from phmrun.errors import ExitCode, PhmrunError
from phmrun.tasks.parse.config import TreebankVocabularyConfig
from phmrun.tasks.parse.vocabulary import NO_LABEL, TreebankVocabulary
from phmrun.tasks.parse.vocabulary import learn_vocabulary as learned_from
from phmrun.text import conllu

TEXT = """\
1	The	the	DET	DT	_	2	det	_	_
2	dog	dog	NOUN	NN	_	3	nsubj:pass	_	_
3	sleeps	sleep	VERB	VBZ	_	0	root	_	_

1	the	the	DET	DT	_	2	det	_	_
2	cat	cat	NOUN	NN	_	0	root	_	_

1	Dog	dog	NOUN	_	_	0	root	_	_

"""
TREES = trees_of(TEXT)
PAD, UNK, ROOT = 0, 1, 2


def learn_vocabulary(sentences, with_rare=False, **settings):
    config = TreebankVocabularyConfig().model_copy(update={"multiple_of": 1, **settings})
    return learned_from(sentences, config, with_rare=with_rare)


def test_words_are_ranked_by_count_then_by_name():
    vocabulary = learn_vocabulary(TREES)
    assert vocabulary.words == ("dog", "the")
    assert learn_vocabulary(TREES, lowercase=False).words == ()
    cased = learn_vocabulary(TREES, lowercase=False, min_frequency=1)
    assert cased.words == ("Dog", "The", "cat", "dog", "sleeps", "the")
    assert learn_vocabulary(TREES, size=4, min_frequency=1).words == ("dog",)
    assert vocabulary.tags == ("NOUN", "DET", "VERB")
    assert learn_vocabulary(TREES, tags="xpos").tags == ("DT", "NN", "VBZ")
    assert vocabulary.labels == ("root", "det", "nsubj:pass")
    assert learn_vocabulary(TREES, subtypes=False).labels == ("root", "det", "nsubj")
    assert vocabulary.characters[0] == "e"
    assert learn_vocabulary(TREES, characters=1).characters == ("D", "T", "c", "d", "s", "t")


def test_rare_tags_labels_and_characters_are_unknown_as_in_parser_v2():
    """Characters are counted in distinct words: "dog" and "Dog" are one if words are in lower case."""
    vocabulary = learn_vocabulary(TREES, min_frequency_for="all", lowercase_characters=True)
    assert vocabulary.words == ("dog", "the")
    assert vocabulary.tags == ("NOUN", "DET")
    assert vocabulary.labels == ("root", "det")
    distinct = "thedogsleepscat"
    assert set(vocabulary.characters) == {letter for letter in distinct if distinct.count(letter) > 1}
    cased = "ThedogsleepsthecatDog"
    assert set(learn_vocabulary(TREES, min_frequency_for="all").characters) == {x for x in cased if cased.count(x) > 1}
    encoded = vocabulary.encode(TREES)
    assert encoded.tags.tolist()[:4] == [ROOT, 4, 3, UNK]
    assert encoded.labels.tolist()[:4] == [NO_LABEL, 1, NO_LABEL, 0]


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"words": []}'])
def test_a_damaged_vocabulary_is_a_data_error(tmp_path, content):
    if content is not None:
        (tmp_path / "treebank.json").write_text(content)
    with pytest.raises(PhmrunError, match="missing or damaged") as caught:
        TreebankVocabulary.load(tmp_path)
    assert caught.value.code is ExitCode.DATA
    learn_vocabulary(TREES).save(tmp_path)
    stored = json.loads((tmp_path / "treebank.json").read_text())
    (tmp_path / "treebank.json").write_text(json.dumps({**stored, "more": 1}))
    with pytest.raises(PhmrunError, match="missing or damaged"):
        TreebankVocabulary.load(tmp_path)


def test_sentences_become_numbers_with_the_root_first():
    encoded = learn_vocabulary(TREES).encode(TREES)
    assert encoded.lengths.tolist() == [3, 2, 1]
    assert encoded.words.tolist() == [ROOT, 4, 3, UNK, ROOT, 4, UNK, ROOT, 3]
    assert encoded.tags.tolist() == [ROOT, 4, 3, 5, ROOT, 4, 3, ROOT, 3]
    assert encoded.spellings.tolist() == [0, 1, 2, 3, 0, 4, 5, 0, 6]
    assert encoded.heads.tolist() == [0, 2, 3, 0, 0, 2, 0, 0, 0]
    assert encoded.labels.tolist() == [NO_LABEL, 1, 2, 0, NO_LABEL, 1, 0, NO_LABEL, 0]


@settings(max_examples=50)
@given(data=st.data(), longest=st.integers(1, 4))
def test_a_batch_holds_what_its_sentences_hold(data, longest):
    word = st.text("abc", min_size=1, max_size=6)
    sentences = [
        conllu.sentence_of(forms).with_parse(range(len(forms)), ["x"] * len(forms))
        for forms in data.draw(st.lists(st.lists(word, min_size=1, max_size=5), min_size=1, max_size=5))
    ]
    vocabulary = learn_vocabulary(sentences, min_frequency=1, characters=longest)
    encoded = vocabulary.encode(sentences)
    numbers = data.draw(st.lists(st.sampled_from(range(len(sentences))), min_size=1, max_size=4, unique=True))
    batch = encoded.padded(np.array(numbers))
    assert (np.diff(batch.character_counts) <= 0).all()
    rows = set()
    for row, number in enumerate(numbers):
        forms = sentences[number].forms
        size = len(forms) + 1
        assert batch.lengths[row] == size
        assert batch.heads[row].tolist() == [0, *range(size - 1)] + [0] * (batch.words.shape[1] - size)
        assert batch.labels[row].tolist() == [NO_LABEL] + [0] * (size - 1) + [NO_LABEL] * (batch.words.shape[1] - size)
        assert [vocabulary.words[word - 3] for word in batch.words[row, 1:size]] == list(forms)
        assert (batch.words[row, 0], batch.tags[row, 0]) == (ROOT, ROOT)
        assert not batch.words[row, size:].any()
        for column, form in enumerate(forms, 1):
            spelling = batch.spellings[row, column]
            characters = batch.characters[spelling, : batch.character_counts[spelling]]
            assert "".join(vocabulary.characters[character - 3] for character in characters) == form[:longest]
            assert not batch.characters[spelling, batch.character_counts[spelling] :].any()
            rows.add(form[:longest])
        assert batch.characters[batch.spellings[row, 0], 0] == ROOT
    assert len(batch.characters) == len(rows) + 1
    expected = [
        row * batch.words.shape[1] + column
        for row, number in enumerate(numbers)
        for column in range(1, len(sentences[number]) + 1)
    ]
    assert batch.positions.tolist() == expected
