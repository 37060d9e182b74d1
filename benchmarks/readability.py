"""Measure the readability of docstrings, help texts and pages: ``python -m benchmarks.readability FOLDER …``.

Each folder's row has the number of docstrings, the mean words of their first lines, and how many begin with a word that
``tests/words/rules.yaml`` bans. It also has the mean and 95th percentile of words per sentence in docstrings and help
texts, and the Flesch–Kincaid grade of docstrings and of the Markdown pages. For comparison with installed packages:
``python -m benchmarks.readability phmrun .venv/lib/python3.11/site-packages/sacrebleu``.
"""

import re
import statistics
import sys
from collections import Counter
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from tests.words.__main__ import RULES
from tests.words.prose import Passage, passages, python_files, sentences

CODE = re.compile(r"```.*?```|^\s*\|.*$|`[^`]*`|https?://\S+", re.DOTALL | re.MULTILINE)


def main(folders: list[str]) -> None:
    """Print the measurements of the folders as a table."""
    table = Table("folder", "docstrings", "first line", "banned first", "sentence", "95 %", "grade", "pages' grade")
    banned = set(yaml.safe_load(RULES.read_text("utf-8"))["first_words"])
    for folder in folders:
        texts = [passage for file in python_files([Path(folder)]) for passage in _passages(file)]
        docstrings = [passage.text for passage in texts if passage.kind == "docstring"]
        first_lines = [text.splitlines()[0].split() for text in docstrings]
        lengths = [len(words.split()) for passage in texts for words in sentences(passage.text)]
        firsts = Counter(line[0].strip(",:;.") for line in first_lines if line)
        pages = [page.read_text("utf-8", "replace") for page in sorted(Path(folder).glob("*.md"))]
        table.add_row(
            Path(folder).name,
            f"{len(docstrings):,}",
            f"{statistics.mean(map(len, first_lines)):.1f}" if first_lines else "–",
            f"{sum(firsts[word] for word in banned)}",
            f"{statistics.mean(lengths):.1f}" if lengths else "–",
            f"{sorted(lengths)[int(0.95 * len(lengths))]}" if lengths else "–",
            f"{grade(docstrings):.1f}" if docstrings else "–",
            f"{grade(pages):.1f}" if pages else "–",
        )
    Console().print(table)


def grade(texts: list[str]) -> float:
    """Flesch–Kincaid grade of English texts, without code, tables and addresses (Kincaid et al. 1975).

    ``0.39 · words/sentences + 11.8 · syllables/words - 15.59``; syllables are counted as groups of vowels, without a
    silent final e.
    """
    by_sentence = [
        words for text in texts for sentence in sentences(CODE.sub(" ", text)) if (words := _words(sentence))
    ]
    words = [word for sentence in by_sentence for word in sentence]
    return 0.39 * len(words) / len(by_sentence) + 11.8 * sum(map(_syllables, words)) / len(words) - 15.59


def _passages(file: Path) -> list[Passage]:
    """Docstrings and help texts of a file; none if another Python version wrote it."""
    try:
        return [passage for passage in passages(file) if passage.kind in ("docstring", "help")]
    except SyntaxError:
        return []


def _words(sentence: str) -> list[str]:
    return re.findall(r"[A-Za-z][a-z]+|[aI]\b", sentence)


def _syllables(word: str) -> int:
    return max(1, len(re.findall(r"[aeiouy]+", word.lower().removesuffix("e"))))


if __name__ == "__main__":
    main(sys.argv[1:])
