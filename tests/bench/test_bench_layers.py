import math

import pytest
import torch
from torch import nn

from phmrun.bench import layers
from phmrun.bench.layers import check_batches, copies_of, measure
from phmrun.bench.modules import MODULE_KINDS, Case, cases
from phmrun.cli.bench import MODULES
from phmrun.errors import PhmrunError
from phmrun.kernels import Product
from phmrun.layers.inference import FEW_TOKENS

LINEAR = MODULE_KINDS["linear"]
SHAPE = (16, 32)


def labels(structures, orders=(2, 4), shapes=(SHAPE,)):
    actual, left_out = cases(LINEAR, structures, orders, shapes)
    return [case.label for case in actual], left_out


def test_structures_with_an_order_are_taken_at_every_order():
    assert labels([("dense", {}), ("phm", {})]) == (["dense", "phm n=2", "phm n=4"], [])
    assert labels([("phm", {"n": 8})])[0] == ["phm n=8"]
    assert labels([("phm", {"variant": "released"})])[0] == ["phm n=2 variant=released", "phm n=4 variant=released"]


def test_sizes_that_do_not_fit_are_left_out_and_said():
    actual, left_out = labels([("phm", {})], orders=(2, 3))
    assert actual == ["phm n=2"]
    assert len(left_out) == 1
    assert "linear, phm n=3, 16 → 32" in left_out[0]


def test_all_maps_of_a_module_must_fit():
    """An LSTM of 20 inputs and 30 hidden numbers has square recurrent maps, but no square input maps."""
    actual, left_out = cases(MODULE_KINDS["lstm"], [("circulant", {}), ("phm", {"n": 10})], (), [(20, 30)])
    assert [case.label for case in actual] == ["phm n=10"]
    assert "circulant matrix is square" in left_out[0]
    assert cases(MODULE_KINDS["lstm"], [("circulant", {})], (), [(30, 30)])[1] == []


def test_a_kinds_own_sizes_and_orders_unless_given():
    actual, _ = cases(MODULE_KINDS["lstm"], [("phm", {})])
    assert [(case.label, case.shape) for case in actual] == [("phm n=2", (300, 300)), ("phm n=4", (300, 300))]


def test_what_has_no_lower_precision_is_left_out():
    actual, left_out = cases(LINEAR, [("circulant", {}), ("dense", {})], (), [(16, 16)], torch.bfloat16)
    assert [case.label for case in actual] == ["dense"]
    assert len(left_out) == 1


@pytest.mark.parametrize(
    ("structure", "text"),
    [(("phn", {}), "phm"), (("phm", {"m": 2}), "layer 'phm' has no option 'm'"), (("phm", {"n": "two"}), "phm.n")],
)
def test_unknown_names_and_values(structure, text):
    with pytest.raises(PhmrunError) as error:
        cases(LINEAR, [structure], (2,), [SHAPE])
    assert text in str(error.value)


def test_copies_exceed_the_size_and_share_no_memory():
    linear = nn.Linear(*SHAPE)
    copies = copies_of(linear, 10_000)
    item = 4 * (SHAPE[0] * SHAPE[1] + SHAPE[1])
    assert len(copies) == math.ceil(10_000 / item)
    assert len({copy.weight.data_ptr() for copy in copies}) == len(copies)
    assert len(copies_of(linear, 0)) == 1
    assert len(copies_of(nn.Linear(1, 1), 10**9)) == layers.MOST_COPIES


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


def test_figures_of_each_candidate(rows):
    for row in rows:
        forms = ["dense", "factored"] if row.layer != "dense" and row.mode == "inference" else ["dense"]
        assert list(row.ratios) == forms
        assert list(row.seconds) == ["nn.Linear", *forms]
        assert all(figure > 0 for figure in (*row.ratios.values(), *row.seconds.values()))


def test_operations_per_second_of_training_are_those_of_the_structure():
    chosen, _ = cases(LINEAR, [("low-rank", {"rank": 4})], (), [SHAPE])
    (row,) = (row for row in measure(chosen, training=[(8,)], batches=[(1,)], rounds=1, at_least=0.0, cache=1)
              if row.mode == "training")  # fmt: skip
    operations = {"nn.Linear": 6 * 8 * 16 * 32, row.auto: 6 * 8 * 4 * (16 + 32)}
    assert row.gflops == {name: pytest.approx(count / row.seconds[name] / 1e9) for name, count in operations.items()}


def test_only_training_of_linear_maps_has_operations_per_second(rows):
    assert [row.mode for row in rows if row.gflops] == ["training", "training"]


def test_the_choice_of_auto_is_told(rows):
    chosen = {(row.layer, *row.batch): row.auto for row in rows if row.mode == "inference"}
    assert chosen == {
        ("dense", 1): "dense",
        ("dense", FEW_TOKENS + 1): "dense",
        ("phm n=2", 1): "dense",  # a small one
        ("phm n=2", FEW_TOKENS + 1): "dense",
    }


def test_a_training_step_leaves_no_gradients():
    module, inputs = Case(LINEAR, "phm", {"n": 2}, SHAPE).build(), torch.randn(4, SHAPE[0], requires_grad=True)
    seen = []
    module.structure.s.register_hook(lambda gradient: seen.append(gradient.shape))
    layers._step(LINEAR, module, inputs)()
    assert seen == [module.structure.s.shape]
    assert inputs.grad is None
    assert all(parameter.grad is None for parameter in module.parameters())


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


def test_the_library_is_chosen_by_the_reference_s_shapes(monkeypatch):
    asked = []
    monkeypatch.setattr(layers, "choose", lambda requested, products: asked.append((requested, products())))
    layers.kernels(cases(MODULE_KINDS["linear"], [("phm", {}), ("dense", {})], (2, 4), [(8, 12)], torch.float32)[0])
    assert asked == [("auto", [Product(1, 12, 8)])]


def test_the_command_line_knows_all_modules():
    assert list(MODULES) == list(MODULE_KINDS)
    with pytest.raises(PhmrunError, match="no batch of lstm"):
        check_batches(MODULE_KINDS["lstm"], [(8,)], "--tokens")


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
