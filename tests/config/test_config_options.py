"""Options of structures: read from their sources, they are those of the constructors."""

import pytest

from phmrun.config.options import options_of, section_of
from phmrun.registry import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES.names())
def test_options_from_the_source_are_those_of_the_constructor(name):
    read, imported = options_of(name), section_of(STRUCTURES.get(name).__init__, freezes=True)
    assert read.model_json_schema() == imported.model_json_schema()
    assert list(read.model_fields) == list(imported.model_fields)
