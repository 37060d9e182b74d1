"""Every setting of the papers' tables has a provenance: said (where), released (repository, file), or ours (why)."""

import pytest
import yaml

from phmrun.config import config_source, packaged_names
from phmrun.config.provenance import grouped, is_complete, kind_of, provenance_of, spread
from phmrun.papers import load_table, table_names
from phmrun.sweeps.paper_table import setting_names

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


@pytest.mark.parametrize("name", table_names())
def test_nothing_is_said_of_keys_that_are_not_there(name):
    table = load_table(name)
    keys = {key for _, values in sections(table) for key in setting_names(values)}
    unused = [mark for mark in table.provenance if not any(key == mark or key.startswith(f"{mark}.") for key in keys)]
    assert unused == []


@pytest.mark.parametrize("name", SMALL)
def test_reduced_settings_say_what_they_reduce(name):
    assert config_source(name).values["reduced"]


def test_forms():
    assert [kind_of(text) for text in ("said 4.2", "ours, x", "ours", "Parser-v2's defaults", "released a/b c")] == [
        "said",
        "ours",
        "ours",
        "",
        "released",
    ]
    complete = ("said 4.2", "said Table 9", "ours, none", "released a/b c.py:3", "released a/b c.py")
    assert all(map(is_complete, complete))
    assert not any(map(is_complete, ("said", "ours", "released code", "released a/b", "somewhere")))


def test_the_longest_beginning_of_a_key_holds():
    arguments = {"training": "said 5", "training.clip": "ours, none", "model.cell": "ours, the default"}
    keys = ["training.clip", "training.lr", "batch.size"]
    assert spread(arguments, keys) == {
        "training.clip": "ours, none",
        "training.lr": "said 5",
        "model.cell": "ours, the default",
    }
    values = {"training.lr": (0.1, "said 5"), "a": ({}, "ours, x"), "b": (2, "ours, x")}
    assert grouped(values) == [("said 5", "training.lr = 0.1"), ("ours, x", "a, b = 2")]


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
