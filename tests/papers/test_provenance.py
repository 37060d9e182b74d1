"""Every setting of the papers' tables has a provenance: said (where), released (repository, file), or ours (why)."""

import pytest
import yaml
from complete_provenance import is_complete

from phmrun.config import config_source, packaged_names
from phmrun.config.provenance import provenance_of
from phmrun.papers.table import load_table, setting_names, table_names

SMALL = [name for name in packaged_names() if name.startswith("configs/papers/") and name.endswith("-small.yaml")]


def lacking(values, *known):
    """Settings without a complete provenance."""
    texts = {key: next(filter(None, (provenance_of(key, item) for item in known)), "") for key in setting_names(values)}
    return [f"{key}: {text}" for key, text in texts.items() if not is_complete(text)]


def sections(table):
    """The settings that a table's file holds, with what they say of themselves."""
    yield "base", table.base
    yield from ((heading, column.set) for heading, column in table.columns.items())
    for row in table.rows:
        yield row.name, row.set
        yield from ((f"{row.name}, {heading}", values) for heading, values in row.cells.items())


@pytest.mark.parametrize("name", table_names())
def test_every_key_of_a_table_has_a_provenance(name):
    table = load_table(name)
    actual = {
        where: lacking(values, values.get("provenance", {}), table.provenance) for where, values in sections(table)
    }
    assert {where: keys for where, keys in actual.items() if keys} == {}
    for file in {*table.config, *(file for row in table.rows for file in row.config)}:
        values = config_source(file).values
        assert lacking(values, values.get("provenance", {})) == [], file


@pytest.mark.parametrize("name", SMALL)
def test_reduced_settings_say_what_they_reduce(name):
    assert config_source(name).values["reduced"]


def test_provenance_is_read_and_carried_by_the_configuration():
    from phmrun.papers.audit import row_config

    name = "configs/papers/shapeshifter/table4.yaml"
    table = load_table(name)
    config = row_config(table, table.row("DeLighT"), name)
    actual = config.provenance_values()
    assert actual["training.max_steps"][0] == 30000
    assert actual["training.max_steps"][1].startswith("released sacmehta/delight")
    assert actual["decoding.alpha"] == (0.6, "ours, the table's, one search for all rows")
    assert yaml.safe_load(yaml.safe_dump(config.provenance)) == config.provenance
