"""Provenance of settings: said in a paper, released as code, chosen by printed counts, or ours.

Imports no torch.

A configuration file gives it below ``provenance``, by key or by the beginning of keys; the longest one holds::

    provenance:
      training: said 5.1                                           # section or table of the paper
      training.clip: released owner/repository path/to/file.py:69   # repository, file and line
      model.encoder_layers: counted 44M, 6; the text has 4         # printed numbers; what the text says against it
      training.validate_every: ours, no effect on what is learnt   # reason

Each source of a configuration speaks of the keys that it sets itself.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

KINDS = ("said", "released", "counted", "ours")


def kind_of(text: str) -> str:
    """Return the kind of a provenance: said, released, counted or ours.

    It is the first word, up to a space, comma or colon. Empty if that is another word, as in older runs.
    """
    word = re.split(r"[ ,:]", text, maxsplit=1)[0]
    return word if word in KINDS else ""


def provenance_of(key: str, given: Mapping[str, str]) -> str | None:
    """Return the provenance of a dotted key, else of its longest section.

    None if there is neither.
    """
    parts = key.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((given[name] for name in names if name in given), None)


def spread(given: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """Return the provenance of each key that has one, by key.

    A key's is that of its longest section in ``given``, see :func:`provenance_of`. Entries of ``given`` that are
    neither a key nor a section of one are added unchanged.
    """
    texts = {key: provenance_of(key, given) for key in keys}
    others = {name: text for name, text in given.items() if not any(f"{key}.".startswith(f"{name}.") for key in keys)}
    return {**others, **{key: text for key, text in texts.items() if text is not None}}


def grouped(values: Mapping[str, tuple[Any, str]]) -> list[tuple[str, str]]:
    """Return rows of a provenance text and the settings that have it.

    Settings are ``key = value``, separated by commas; a section is its key alone. Rows are sorted by kind: said,
    released, counted, ours, none; within a kind, by first appearance.
    """
    settings: dict[str, list[str]] = {}
    for key, (value, text) in values.items():
        settings.setdefault(text, []).append(key if isinstance(value, Mapping) else f"{key} = {value}")
    order = {kind: number for number, kind in enumerate((*KINDS, ""))}
    return [(text, ", ".join(settings[text])) for text in sorted(settings, key=lambda text: order[kind_of(text)])]
