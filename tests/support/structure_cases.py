"""Every registered structure with options worth testing, for tests that run over all of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from phmrun.registry import STRUCTURES, load_plugin

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_layers.py"
load_plugin(EXAMPLE)  # a user's own layer, which every generic test takes like one of ours

SQUARE = tuple(name for name in STRUCTURES.names() if STRUCTURES.get(name).square)
"""Structures of square matrices only, which cannot stand for every map of a network."""


def _cases(names: Iterable[str]) -> list[Any]:
    return [
        pytest.param(name, options, id="-".join([name, *(str(value) for value in options.values())]))
        for name in names
        for options in STRUCTURES.get(name).examples
    ]


GUIDED = [pytest.param("guided", {"of": "phm", "options": "n=2"}, id="guided-phm")]
"""One with parameters that only training has: another matrix in training than in evaluation."""
ADDED = [pytest.param("added", {"of": "block-circulant", "options": "size=4", "base": "random"}, id="added")]
"""One whose W has a part that state dicts leave out."""

CASES = _cases(name for name in STRUCTURES.names() if name not in (*SQUARE, "guided", "added"))
"""``(structure, options)``, the examples on each class; they fit sizes that are multiples of 16."""

SQUARE_CASES = _cases(SQUARE)
"""``(structure, options)`` of those that fit squares only."""

_DEEP = {"depth": 2, "expansion": 64, "width": 16, "multiple_of": 16}

EMBEDDING_CASES = [
    pytest.param("adaptive", {"cutoffs": (16, 32), "div_value": 2.0}, id="adaptive"),
    pytest.param("projective", {"width": 16, "cutoffs": (16, 32)}, id="projective"),
    pytest.param("define", {**_DEEP, "max_groups": 4, "cutoffs": (16, 32), "div_value": 2.0}, id="define"),
    pytest.param("define", {**_DEEP, "connection": "residual", "max_groups": 2}, id="define-residual"),
    pytest.param("hgt", {**_DEEP, "max_groups": 4}, id="hgt"),
    pytest.param("glt", {**_DEEP, "max_groups": 2}, id="glt"),
    pytest.param("glt-shuffle", {**_DEEP, "max_groups": 2}, id="glt-shuffle"),
    pytest.param("linear", _DEEP, id="linear"),
]
"""``(embedding, options)``; the options fit widths that are multiples of 16 and vocabularies of more than 32 words."""
