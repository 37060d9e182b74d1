import json


def test_schema(phmrun):
    result = phmrun("schema", "nmt")
    document = json.loads(result.out)
    assert document["title"] == "phmrun nmt"
    layer = document["$defs"]["LayerConfig"]["anyOf"][0]["properties"]
    assert {"dense", "phm"} <= set(layer["structure"]["examples"])
    assert document["$defs"]["BatchConfig"]["properties"]["size"]["minimum"] == 1
    refused = phmrun("schema", "nmt", "--model", "transformr")
    assert (refused.code, "Did you mean 'transformer'?" in refused.err) == (2, True)


def test_schema_of_sweep_files(phmrun):
    document = json.loads(phmrun("schema", "sweep").out)
    assert phmrun("schema", "sweep", "--files").code == 2
    assert {"task", "grid", "base", "seeds", "tune", "include"} <= document["properties"].keys()
    assert document["additionalProperties"] is False
