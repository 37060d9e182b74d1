"""Check the wording of docstrings, comments, help texts and local names: ``python -m tests.words [PATH …]``.

Prints ``file:line: rule: text`` for each fault, and ends with 1 if there is any. The rules are in ``rules.yaml``.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.words.prose import Passage, passages, python_files, sentences

ROOTS = ["phmrun", "tasks", "tests", "benchmarks", "examples", "docs"]
RULES = Path(__file__).with_name("rules.yaml")


@dataclass(frozen=True)
class Fault:
    """A passage that breaks a rule."""

    passage: Passage
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.passage.file}:{self.passage.line}: {self.rule}: {self.text}"


def main(arguments: list[str]) -> int:
    """Check the paths, or the whole project; return the exit code."""
    rules = yaml.safe_load(RULES.read_text("utf-8"))
    roots = [Path(name) for name in arguments or ROOTS if Path(name).exists()]
    faults = [fault for file in python_files(roots) for fault in check(file, rules)]
    print(*faults, sep="\n", end="\n" if faults else "")
    if faults:
        print(f"{len(faults)} faults of wording; the rules and plain forms are in {RULES}", file=sys.stderr)
    return 1 if faults else 0


def check(file: Path, rules: dict) -> Iterator[Fault]:
    """Yield the faults of a Python file, exceptions left out."""
    allowed = {(entry["file"], entry["rule"], entry["text"]) for entry in rules["exceptions"]}
    for passage in passages(file):
        for rule, text in _broken(passage, rules):
            if (file.as_posix(), rule, text) not in allowed:
                yield Fault(passage, rule, text)


def _broken(passage: Passage, rules: dict) -> Iterator[tuple[str, str]]:
    """Yield each broken rule with the words that break it."""
    if passage.kind == "local":
        if passage.text in rules["locals"]:
            yield "locals", passage.text
        return
    text = " ".join(passage.text.split()).lower()
    for phrase in rules["phrases"]:
        if phrase in text:
            yield "phrases", phrase
    if passage.kind == "docstring":
        first = passage.text.split()[0].strip(",:;.")
        if first in rules["first_words"]:
            yield "first_words", first
    if passage.kind in ("docstring", "help"):
        for sentence in sentences(passage.text):
            if len(sentence.split()) > rules["max_sentence_words"]:
                yield "max_sentence_words", f"{len(sentence.split())} words: {' '.join(sentence.split()[:8])} …"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
