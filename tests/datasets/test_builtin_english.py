"""English morphology against forms written out by hand."""

import pytest

from phmrun.datasets.builtin import english
from phmrun.datasets.builtin import morphology_english as morphology
from phmrun.datasets.builtin.lexicon import lexicon
from phmrun.datasets.builtin.tree import Clause, NounPhrase, Pronoun


@pytest.mark.parametrize(
    ("base", "third", "ing"),
    [
        *(
            ("see", "sees", "seeing"),
            ("lie", "lies", "lying"),
            ("carry", "carries", "carrying"),
            ("go", "goes", "going"),
        ),
        *(("run", "runs", "running"), ("open", "opens", "opening"), ("catch", "catches", "catching")),
        *(("write", "writes", "writing"), ("begin", "begins", "beginning"), ("play", "plays", "playing")),
        *(("draw", "draws", "drawing"), ("hug", "hugs", "hugging"), ("answer", "answers", "answering")),
    ],
)
def test_present_and_ing(base: str, third: str, ing: str) -> None:
    assert morphology.present(base, "3s") == third
    assert morphology.ing(base) == ing


def test_regular_plurals_and_pasts() -> None:
    plurals = {noun.english: noun.english_plural for noun in lexicon().nouns}
    assert plurals["story"] == "stories"
    assert plurals["boy"] == "boys"
    assert plurals["church"] == "churches"
    assert plurals["wolf"] == "wolves"
    pasts = {verb.english[0]: verb.english[1] for verb in lexicon().verbs}
    assert pasts["play"] == "played"
    assert pasts["marry"] == "married"
    assert pasts["love"] == "loved"


def test_articles() -> None:
    words = ("apple", "honest", "university", "ugly", "old", "house", "useful", "umbrella")
    assert [morphology.article(word) for word in words] == ["an", "an", "a", "an", "an", "a", "a", "an"]


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"tense": "present"}, "She reads a book."),
        ({"tense": "present", "negated": True}, "She does not read a book."),
        ({"tense": "past", "kind": "question"}, "Did she read a book?"),
        ({"tense": "perfect"}, "She has read a book."),
        ({"tense": "progressive"}, "She is reading a book."),
        ({"tense": "future", "negated": True}, "She will not read a book."),
        ({"tense": "present", "modal": "can", "negated": True}, "She cannot read a book."),
        ({"tense": "present", "modal": "want to"}, "She wants to read a book."),
        ({"tense": "present", "modal": "had to", "negated": True}, "She did not have to read a book."),
        ({"tense": "present", "modal": "wanted to", "kind": "question"}, "Did she want to read a book?"),
    ],
)
def test_verb_groups(features: dict[str, object], expected: str) -> None:
    entries = lexicon()
    read = next(verb for verb in entries.verbs if verb.english[0] == "read" and verb.frame == "t")
    book = NounPhrase(next(noun for noun in entries.nouns if noun.english == "book"), False, "a")
    settings: dict[str, object] = {"kind": "main", "object": book}
    node = Clause(read, subject=Pronoun("3s", "f"), **(settings | features))  # type: ignore[arg-type]
    assert english.sentence(node) == expected
