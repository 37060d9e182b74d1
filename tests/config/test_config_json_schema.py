import json

import pytest

from phmrun.config import json_schema


@pytest.fixture
def validator(schema):
    jsonschema = pytest.importorskip("jsonschema", reason="an independent validator")
    document = json_schema(schema)
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
    [{"sed": 1}, {"seed": -1}, {"layer": 3}, {"model": {"preset": "huge"}}],
)
def test_schema_refuses_invalid_configurations(validator, config):
    assert not validator.is_valid(config)
