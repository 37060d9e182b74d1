import json
from dataclasses import replace

import pytest

from phmrun.config import json_schema


@pytest.fixture
def validator(schema, structures):
    jsonschema = pytest.importorskip("jsonschema", reason="an independent validator")
    document = json_schema(schema, structures)
    json.dumps(document)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"layer": "phm"},
        {"layer": {"structure": "phm", "n": 8}, "seed": 2},
        {"layer": {"structure": "somebody-elses", "option": 1}},
        {"embedding": {"rank": 3, "scale": None}, "training": {"optimizer": {"betas": [0.9, 0.98]}}},
    ],
)
def test_schema_accepts_valid_configurations(validator, config):
    assert validator.is_valid(config)


@pytest.mark.parametrize(
    "config",
    [{"sed": 1}, {"seed": -1}, {"layer": {"structure": "phm", "n": "x"}}, {"layer": 3}, {"model": {"preset": "huge"}}],
)
def test_schema_refuses_invalid_configurations(validator, config):
    assert not validator.is_valid(config)


LAYERS = ("LayerConfig", "EmbeddingConfig")


def test_no_key_is_required_and_no_unknown_one_allowed(schema, structures):
    document = json_schema(schema, structures)
    sections = [document, *(section for name, section in document["$defs"].items() if name not in LAYERS)]
    assert len(sections) > 5
    for section in sections:
        assert section["additionalProperties"] is False
        assert "required" not in section


def test_layers_are_a_name_or_a_mapping(schema, structures):
    mapping, name = json_schema(schema, structures)["$defs"]["LayerConfig"]["anyOf"]
    assert set(mapping["properties"]) == {"structure", "n", "variant", "rank", "scale"}
    assert name["anyOf"][0] == {"enum": ["dense", "phm", "rank"]}
    assert mapping["properties"]["variant"]["enum"] == ["paper", "released"]


def test_structures_may_share_the_name_of_an_option(schema, structures):
    option = structures["phm"][0]
    shared = {"a": (option,), "b": (replace(option, annotation=float),), "c": (option,)}
    n = json_schema(schema, shared)["$defs"]["LayerConfig"]["anyOf"][0]["properties"]["n"]
    assert [kind["type"] for kind in n["anyOf"]] == ["integer", "number"]
    assert n["description"].count("\n") == 2


def test_options_carry_their_structure_and_default(schema, structures):
    text = json_schema(schema, structures)["$defs"]["LayerConfig"]["anyOf"][0]["properties"]["n"]["description"]
    assert text == "phm: Order. (default 4)"


def test_embeddings_are_one_where_a_table_is_meant(schema, structures, embeddings):
    sections = json_schema(schema, structures, embeddings)["$defs"]
    table, matrix = (sections[name]["anyOf"][0]["properties"] for name in ("EmbeddingConfig", "LayerConfig"))
    assert "deep" in table["structure"]["examples"]
    assert "deep" not in matrix["structure"]["examples"]
    assert table.keys() - matrix.keys() == {"depth", "inside"}
    assert table["inside"]["$ref"] == "#/$defs/LayerConfig"
