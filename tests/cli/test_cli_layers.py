import json

import pytest

from phmrun.registry import EMBEDDINGS, STRUCTURES


def test_list(phmrun):
    facts = {fact["name"]: fact for fact in json.loads(phmrun("layers", "list", "--json").out)}
    assert {*STRUCTURES.names(), *EMBEDDINGS.names()} == set(facts)
    table = phmrun("layers", "list").out
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
    report = json.loads(phmrun("layers", "show", "phm", "--json").out)
    options = {option["name"]: option for option in report["options"]}
    assert options["n"]["type"] == "int"
    assert options["n"]["default"] == 4
    assert all(option["help"] for option in report["options"])
    text = phmrun("layers", "show", "phm").out
    assert "k·d/n + n³" in text
    assert "variant" in text
    assert "262,208: 0.25 of a dense matrix's" in text


def test_show_the_option_of_every_structure(phmrun):
    assert "layer: {structure: dense, freeze: none}" in phmrun("layers", "show", "dense").out


def test_show_an_embedding(phmrun):
    report = json.loads(phmrun("layers", "show", "hgt", "--json").out)
    assert report["makes"] == "embedding"
    assert "decreasing numbers of groups" in report["description"]
    assert "connection" not in {option["name"] for option in report["options"]}
    assert "embedding: {structure: define, depth: 3}" in phmrun("layers", "show", "define").out


def test_unknown(phmrun):
    result = phmrun("layers", "show", "pmh")
    assert result.code == 2
    assert "Did you mean 'phm'" in result.err


PLUGIN = '''
from phmrun.layers import Structure, register

@register("listed-for-test")
class Listed(Structure):
    """Listed."""
    formula, count_formula, source = "W = 0", "0", "none"

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__(out_features, in_features)

    def reset_parameters(self, std: float) -> None:
        """Nothing is drawn."""

    def materialize(self):
        """Zeros."""
'''


@pytest.fixture
def plugin(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    yield str(file)
    STRUCTURES._registered.pop("listed-for-test", None)


def test_plugins(phmrun, plugin):
    assert "listed-for-test" in phmrun("layers", "list", "--plugin", plugin).out
    assert "W = 0" in phmrun("layers", "show", "listed-for-test", "--plugin", plugin).out
