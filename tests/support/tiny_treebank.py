"""A made-up treebank: words of three kinds, each hung where its kind hangs."""

import io
import random
from collections.abc import Mapping
from pathlib import Path

from phmrun.text import conllu
from phmrun.text.conllu import Sentence

SPLITS = {"train": 120, "dev": 24, "test": 12}
KINDS = {"D": "DET", "N": "NOUN", "V": "VERB"}


def trees_of(text: str, name: str = "text") -> list[Sentence]:
    """The sentences of a file's text."""
    return conllu.read(io.StringIO(text, newline="\n"), name)


def made_up_sentence(draw: random.Random) -> Sentence:
    """Pairs of determiner and noun around one verb: determiners hang on the next word, nouns on the verb."""
    before, after = draw.randrange(1, 3), draw.randrange(3)
    kinds = "DN" * before + "V" + "DN" * after
    verb = kinds.index("V") + 1
    forms = [f"{kind.lower()}{draw.randrange(9)}" for kind in kinds]
    heads = [0 if kind == "V" else number + 1 if kind == "D" else verb for number, kind in enumerate(kinds, 1)]
    labels = {"V": "root", "D": "det"}
    names = [labels.get(kind, "nsubj:x" if number < verb else "obj") for number, kind in enumerate(kinds, 1)]
    rows = [
        f"{number}\t{form}\t_\t{KINDS[kind]}\t{kind}\t_\t{head}\t{name}\t_\t_\n"
        for number, (form, kind, head, name) in enumerate(zip(forms, kinds, heads, names, strict=True), 1)
    ]
    first = f"1-2\t{forms[0]}{forms[1]}" + "\t_" * 8 + "\n"  # a multi-word token
    last = f"{len(rows)}.1" + "\t_" * 9 + "\n"  # an empty node
    return trees_of("".join([f"# text = {' '.join(forms)}\n", first, *rows, last, "\n"]))[0]


def write_trees(directory: Path, seed: int = 0, sizes: Mapping[str, int] | None = None) -> Path:
    """``{train,dev,test}.conllu``. Returns the directory."""
    draw = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    for split, size in (sizes or SPLITS).items():
        (directory / f"{split}.conllu").write_text(conllu.dumps([made_up_sentence(draw) for _ in range(size)]))
    return directory
