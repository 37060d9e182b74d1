"""Splitting of text into words."""

import re
from typing import Literal

Splitting = Literal["space", "punctuation"]
_WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)


def spaced(sentence: str, lowercase: bool, splitting: Splitting) -> str:
    """Return a sentence with single spaces between its words.

    It is in lower case if ``lowercase``. "space" splits at white space only. "punctuation" also separates punctuation
    marks and English contractions ("do n't", "it 's"), and replaces the apostrophe ’ by '. Hyphens between letters and
    separators within numbers stay ("well-known", "1,000.5").
    """
    text = sentence.lower() if lowercase else sentence
    return " ".join(text.split() if splitting == "space" else _WORD.findall(text.replace("’", "'")))
