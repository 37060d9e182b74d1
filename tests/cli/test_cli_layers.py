import json

from phmrun.registry import EMBEDDINGS, STRUCTURES


def test_list(phmrun):
    facts = {fact["name"]: fact for fact in json.loads(phmrun("layers", "--json").out)}
    assert {*STRUCTURES.names(), *EMBEDDINGS.names()} == set(facts)
    table = phmrun("layers").out
    for fact in facts.values():
        assert fact["formula"]
        assert fact["source"]
        assert fact["name"] in table
        assert (fact["count_formula"].split() or [""])[0] in table  # a formula is for display, the count is measured
    assert facts["dense"]["example"]["multiplications"] == 2048 * 512
    assert facts["symmetric"]["example"] == {
        "out_features": 512, "in_features": 512, "parameters": 512, "multiplications": 512
    }  # fmt: skip
    assert facts["define"]["example"] is None


def test_show(phmrun):
    report = json.loads(phmrun("layers", "phm", "--json").out)
    options = {option["name"]: option for option in report["options"]}
    assert options["n"]["type"] == "int"
    assert options["n"]["default"] == 4
    assert all(option["help"] for option in report["options"])
    text = phmrun("layers", "phm").out
    assert "k·d/n + n³" in text
    assert "variant" in text
    assert "262,208: 0.25 of a dense matrix's" in text


def test_unknown(phmrun):
    result = phmrun("layers", "pmh")
    assert result.code == 2
    assert "Did you mean 'phm'" in result.err
