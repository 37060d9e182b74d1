import math

import pytest
import torch
from torch import nn

from phmrun.bench import layers
from phmrun.bench.layers import REFERENCE, Case, cases, copies_of, inference_forms, measure
from phmrun.errors import PhmrunError
from phmrun.layers.inference import FEW_TOKENS, PackedLinear

SHAPE = (16, 32)


def labels(structures, orders=(2, 4), shapes=(SHAPE,)):
    found, left_out = cases(structures, orders, shapes)
    return [case.label for case in found], left_out


def test_structures_with_an_order_are_taken_at_every_order():
    assert labels([("dense", {}), ("phm", {})]) == (["dense", "phm n=2", "phm n=4"], [])
    assert labels([("phm", {"n": 8})])[0] == ["phm n=8"]
    assert labels([("phm", {"variant": "released"})])[0] == ["phm n=2 variant=released", "phm n=4 variant=released"]


def test_sizes_that_do_not_fit_are_left_out_and_said():
    found, left_out = labels([("phm", {})], orders=(2, 3))
    assert found == ["phm n=2"]
    assert len(left_out) == 1
    assert "phm n=3, 16 → 32" in left_out[0]


@pytest.mark.parametrize(
    ("structure", "text"),
    [(("phn", {}), "phm"), (("phm", {"m": 2}), "option of layer 'phm' 'm'"), (("phm", {"n": "two"}), "phm.n")],
)
def test_unknown_names_and_values(structure, text):
    with pytest.raises(PhmrunError) as error:
        cases([structure], (2,), [SHAPE])
    assert text in str(error.value)


def test_candidates_for_inference_are_what_inference_uses_and_compute_one_function():
    torch.manual_seed(0)
    layer = Case("phm", {"n": 4}, *SHAPE).build()
    forms = inference_forms(nn.Linear(*SHAPE), layer)
    assert {name: type(form) for name, form in forms.items()} == {
        REFERENCE: nn.Linear,
        "dense": nn.Linear,
        "factored": PackedLinear,
    }
    inputs = torch.randn(3, SHAPE[0])
    for application in ("dense", "factored"):
        torch.testing.assert_close(forms[application](inputs), layer(inputs))
    assert "factored" not in inference_forms(nn.Linear(*SHAPE), Case("dense", {}, *SHAPE).build())


def test_copies_exceed_the_size_and_share_no_memory():
    linear = nn.Linear(*SHAPE)
    copies = copies_of(linear, 10_000)
    each = 4 * (SHAPE[0] * SHAPE[1] + SHAPE[1])
    assert len(copies) == math.ceil(10_000 / each)
    assert len({copy.weight.data_ptr() for copy in copies}) == len(copies)
    assert len(copies_of(linear, 0)) == 1
    assert len(copies_of(nn.Linear(1, 1), 10**9)) == layers.MOST_COPIES


def test_cold_calls_go_through_all_copies(monkeypatch):
    seen = []
    monkeypatch.setattr(nn.Linear, "forward", lambda self, inputs: seen.append(id(self)) or inputs)
    copies = copies_of(nn.Linear(*SHAPE), 10_000)
    call = layers._in_turn(copies, torch.zeros(1, SHAPE[0]))
    for _ in range(2 * len(copies)):
        call()
    assert seen == 2 * [id(copy) for copy in copies]


@pytest.fixture(scope="module")
def rows():
    chosen, _ = cases([("dense", {}), ("phm", {})], (2,), [SHAPE])
    arguments = {"tokens": (1, FEW_TOKENS + 1), "training_tokens": (8,), "rounds": 2}
    return list(measure(chosen, **arguments, cache=10_000, at_least=0.0))


def test_every_setting_is_measured_once(rows):
    found = [(row.layer, row.mode, row.weights, row.tokens) for row in rows]
    inference = [("inference", weights, tokens) for weights in ("hot", "cold") for tokens in (1, FEW_TOKENS + 1)]
    assert found == [
        (layer, *setting) for layer in ("dense", "phm n=2") for setting in [("training", "hot", 8), *inference]
    ]


def test_figures_of_each_candidate(rows):
    for row in rows:
        applications = ["dense", "factored"] if row.layer != "dense" and row.mode == "inference" else ["dense"]
        assert list(row.ratios) == applications
        assert list(row.seconds) == [REFERENCE, *applications]
        assert all(figure > 0 for figure in (*row.ratios.values(), *row.seconds.values()))


def test_the_choice_of_auto_is_told(rows):
    chosen = {(row.layer, row.tokens): row.auto for row in rows if row.mode == "inference"}
    assert chosen == {
        ("dense", 1): "dense",
        ("dense", FEW_TOKENS + 1): "dense",
        ("phm n=2", 1): "factored",
        ("phm n=2", FEW_TOKENS + 1): "dense",
    }


def test_a_training_step_leaves_no_gradients():
    layer, inputs = Case("phm", {"n": 2}, *SHAPE).build(), torch.randn(4, SHAPE[0], requires_grad=True)
    seen = []
    layer.structure.s.register_hook(lambda gradient: seen.append(gradient.shape))
    layers._step(layer, inputs, torch.randn(4, SHAPE[1]))()
    assert seen == [layer.structure.s.shape]
    assert inputs.grad is None
    assert all(parameter.grad is None for parameter in layer.parameters())
