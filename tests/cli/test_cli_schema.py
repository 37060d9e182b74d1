import json


def test_schema(phmrun):
    result = phmrun("schema", "nmt")
    document = json.loads(result.out)
    assert document["title"] == "phmrun nmt"
    layer = document["$defs"]["LayerConfig"]["anyOf"][0]["properties"]
    assert "n" in layer
    assert {"dense", "phm"} <= set(layer["structure"]["examples"])
    assert document["$defs"]["BatchConfig"]["properties"]["size"]["minimum"] == 1


def test_unknown_task(phmrun):
    assert phmrun("schema", "nmmt").code == 2
