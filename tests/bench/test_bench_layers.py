import pytest
import torch
from torch import nn

from phmrun.bench import layers
from phmrun.bench.layers import copies_of, measure
from phmrun.bench.modules import MODULE_KINDS, Case, cases
from phmrun.errors import PhmrunError
from phmrun.layers.inference import FEW_TOKENS

pytestmark = pytest.mark.long

LINEAR = MODULE_KINDS["linear"]
SHAPE = (16, 32)


def labels(structures, orders=(2, 4), shapes=(SHAPE,)):
    actual, left_out = cases(LINEAR, structures, orders, shapes)
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
        cases(LINEAR, [structure], (2,), [SHAPE])
    assert text in str(error.value)


def test_cold_calls_go_through_all_copies(monkeypatch):
    seen = []
    monkeypatch.setattr(nn.Linear, "forward", lambda self, inputs: seen.append(id(self)) or inputs)
    copies = copies_of(nn.Linear(*SHAPE), 10_000)
    call = layers._in_turn(LINEAR, copies, torch.zeros(1, SHAPE[0]))
    for _ in range(2 * len(copies)):
        call()
    assert seen == 2 * [id(copy) for copy in copies]


@pytest.fixture(scope="module")
def rows():
    chosen, _ = cases(LINEAR, [("dense", {}), ("phm", {})], (2,), [SHAPE])
    arguments = {"batches": [(1,), (FEW_TOKENS + 1,)], "training": [(8,)], "rounds": 2}
    return list(measure(chosen, **arguments, cache=10_000, at_least=0.0))


def test_every_setting_is_measured_once(rows):
    actual = [(row.layer, row.mode, row.weights, row.batch) for row in rows]
    inference = [("inference", weights, (tokens,)) for weights in ("hot", "cold") for tokens in (1, FEW_TOKENS + 1)]
    assert actual == [
        (layer, *setting) for layer in ("dense", "phm n=2") for setting in [("training", "hot", (8,)), *inference]
    ]


SMALL = {"linear": SHAPE, "lstm": (16, 16)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SMALL)
def test_every_module_is_measured(name, dtype):
    kind = MODULE_KINDS[name]
    chosen, _ = cases(kind, [("phm", {"n": 2}), ("low-rank", {})], (), [SMALL[name]], dtype)
    batch = (3, 4)[: len(kind.batches[0])]
    arguments = {"batches": [batch], "training": [batch], "rounds": 1, "cache": 1, "at_least": 0.0}
    rows = list(measure(chosen, dtype=dtype, **arguments))
    modes = [("training", "hot"), ("inference", "hot"), *([("inference", "cold")] if kind.cold else [])]
    assert [(row.mode, row.weights) for row in rows] == 2 * modes
    assert {row.reference for row in rows} == {kind.reference}
    for row in rows:
        assert row.auto in row.ratios
        assert row.batch == batch


@pytest.mark.parametrize("structure", ["dense", "phm", "low-rank", "circulant"])
@pytest.mark.parametrize("name", SMALL)
def test_all_forms_compute_one_function(structure, name):
    kind = MODULE_KINDS[name]
    case = Case(kind, structure, {}, (16, 16))
    module = case.build()
    inputs = kind.draw(case.shape, (2, 5)[-len(kind.batches[0]) :], torch.float32)
    expected = kind.call(module, inputs)
    assert kind.call(kind.plain(case.shape), inputs).shape == expected.shape
    forms = case.forms(module)
    assert list(forms) == (["dense", "unfolded"] if name == "lstm" else ["dense", "factored"][: len(forms)])
    for form in forms.values():
        assert not any(parameter.requires_grad for parameter in form.parameters())
        torch.testing.assert_close(kind.call(form, inputs), expected)
