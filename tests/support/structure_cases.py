"""Every registered structure with options worth testing, for tests that run over all of them."""

from typing import Any

import pytest

from phmrun.registry import STRUCTURES

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "dense": [{}],
    "phm": [{"n": 2}, {"n": 4, "variant": "released"}],
}
"""Options of a structure by its name; a structure that is not listed is tested with its defaults."""

CASES = [
    pytest.param(name, options, id="-".join([name, *(str(value) for value in options.values())]))
    for name in STRUCTURES.names()
    for options in OPTIONS.get(name, [{}])
]
"""``(structure, options)``; the options fit sizes that are multiples of 16."""
