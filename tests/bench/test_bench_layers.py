import pytest
import torch
from torch import nn

from phmrun.bench import layers
from phmrun.bench.layers import REFERENCE, cases, copies_of, forms, measure
from phmrun.errors import PhmrunError
from phmrun.layers import Linear
from phmrun.layers.inference import FEW_TOKENS

pytestmark = pytest.mark.long

SHAPE = (16, 32)


def labels(structures, orders=(2, 4), shapes=(SHAPE,)):
    actual, left_out = cases(structures, orders, shapes)
    return [case.label for case in actual], left_out


def test_structures_with_an_order_are_taken_at_every_order():
    assert labels([("dense", {}), ("phm", {})]) == (["dense", "phm n=2", "phm n=4"], [])
    assert labels([("phm", {"n": 8})])[0] == ["phm n=8"]
    assert labels([("phm", {"variant": "released"})])[0] == ["phm n=2 variant=released", "phm n=4 variant=released"]


@pytest.mark.parametrize(
    ("structure", "text"),
    [
        (("phn", {}), "phm"),
        (("phm", {"m": 2}), "layer 'phm' has no option 'm'"),
        (("phm", {"n": "two"}), "n of layer 'phm'"),
    ],
)
def test_unknown_names_and_values(structure, text):
    with pytest.raises(PhmrunError) as error:
        cases([structure], (2,), [SHAPE])
    assert text in str(error.value)


def test_cold_calls_go_through_all_copies(monkeypatch):
    seen = []
    monkeypatch.setattr(nn.Linear, "forward", lambda self, inputs: seen.append(id(self)) or inputs)
    copies = copies_of(nn.Linear(*SHAPE), 10_000)
    call = layers._in_turn(copies, torch.zeros(1, SHAPE[0]))
    for _ in range(2 * len(copies)):
        call()
    assert seen == 2 * [id(copy) for copy in copies]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_setting_is_measured_once(dtype, monkeypatch):
    monkeypatch.setattr(layers, "last_level_cache", lambda: 10_000)
    chosen, _ = cases([("dense", {}), ("phm", {})], (2,), [SHAPE], dtype)
    sizes = {"batches": [1, FEW_TOKENS + 1], "training": [8]}
    rows = list(measure(chosen, **sizes, rounds=2, dtype=dtype, at_least=0.0))
    actual = [(row.layer, row.mode, row.weights, row.tokens) for row in rows]
    inference = [("inference", weights, tokens) for weights in ("hot", "cold") for tokens in (1, FEW_TOKENS + 1)]
    assert actual == [
        (layer, *setting) for layer in ("dense", "phm n=2") for setting in [("training", "hot", 8), *inference]
    ]
    assert all(row.auto in row.ratios for row in rows)


@pytest.mark.parametrize("structure", ["dense", "phm", "low-rank", "circulant"])
def test_all_forms_compute_one_function(structure):
    module = Linear(16, 16, structure=structure)
    inputs = torch.randn(5, 16)
    expected = module(inputs)
    held = forms(nn.Linear(16, 16), module)
    assert list(held) == [REFERENCE, "dense", "factored"][: len(held)]
    for name, form in held.items():
        assert not any(parameter.requires_grad for parameter in form.parameters())
        if name != REFERENCE:
            torch.testing.assert_close(form(inputs), expected)
