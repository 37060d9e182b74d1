"""What the user's own files look like, task by task: a valid sample of each format. Imports no torch."""

from collections.abc import Mapping
from typing import NamedTuple

from phmrun.text.agreement import LABELS
from phmrun.text.nli_pairs import COLUMNS


class Format(NamedTuple):
    """A format in which a task reads own files."""

    name: str
    says: str  # what stands where
    files: Mapping[str, str]  # a valid sample: the text of each file by a name for it


_PAIRS = (
    ("A dog sleeps .", "An animal sleeps .", "entailment"),
    ("A dog sleeps .", "A dog runs .", "contradiction"),
    ("A dog sleeps .", "The dog is old .", "neutral"),
)


def _tab(*cells: str) -> str:
    return "\t".join(cells) + "\n"


def _json(premise: str, hypothesis: str, label: str) -> str:
    return f'{{"premise": "{premise}", "hypothesis": "{hypothesis}", "label": "{label}"}}\n'


def _aligned(source: str, target: str) -> Format:
    says = "two files a split, one sentence a line; line k of the one answers line k of the other"
    return Format("aligned text", says, {"train.source": source, "train.target": target})


_TREE = (
    ("1", "the", "the", "DET", "_", "_", "2", "det", "_", "_"),
    ("2", "dog", "dog", "NOUN", "_", "_", "3", "nsubj", "_", "_"),
    ("3", "sleeps", "sleep", "VERB", "_", "_", "0", "root", "_", "_"),
)

FORMATS: Mapping[str, tuple[Format, ...]] = {
    "nmt": (_aligned("a dog sees the cat .\nthe cat sleeps .\n", "un chien voit le chat .\nle chat dort .\n"),),
    "style": (_aligned("thou seest the cat .\nhe sleepeth .\n", "you see the cat .\nhe sleeps .\n"),),
    "sva": (
        Format(
            "lines",
            f"{LABELS[0]} (singular) or {LABELS[1]} (plural), a tab, the words before the verb",
            {"train.tsv": _tab("VBZ", "the dog near the cats") + _tab("VBP", "the dogs near the cat")},
        ),
        Format(
            "table",
            "tab-separated below a header with at least these columns; verb_index counts words from 1",
            {
                "train.tsv": _tab("sentence", "verb_pos", "verb_index", "n_intervening", "n_diff_intervening")
                + _tab("the dog near the cats sleeps", "VBZ", "6", "1", "1")
            },
        ),
    ),
    "nli": (
        Format(
            "columns",
            f"{', '.join(COLUMNS)}, separated by tabs; other labels or classes: data.labels",
            {"train.tsv": "".join(_tab(*pair) for pair in _PAIRS)},
        ),
        Format(
            "table",
            "the same below a header that names the columns, in any order, beside others",
            {"train.tsv": _tab(*COLUMNS) + "".join(_tab(*pair) for pair in _PAIRS)},
        ),
        Format("JSON lines", "one object a line with these keys", {"train.jsonl": "".join(_json(*p) for p in _PAIRS)}),
    ),
    "parse": (
        Format(
            "CoNLL-U",
            "a word a line in ten columns separated by tabs, an empty line after each sentence",
            {"train.conllu": "".join(_tab(*word) for word in _TREE) + "\n"},
        ),
    ),
    "lm": (
        Format(
            "running text",
            "one sentence or paragraph a line, tokenised, or raw: then words and marks are parted",
            {"train.txt": "the dog sees the cat and the cat sees the dog .\nthe cat runs and the child sleeps .\n"},
        ),
    ),
}
"""All are UTF-8, plain or .gz; --train, --dev and --test name the files, of aligned text also --prefix."""
