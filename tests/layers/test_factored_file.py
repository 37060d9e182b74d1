"""Converted models on disk: equal outputs after loading, small files, and files that are damaged or do not fit."""

import copy
import json
import runpy
from pathlib import Path

import pytest
import torch
from safetensors import torch as safetensors
from tied_reader import TOKENS, Reader
from torch import nn

from benchmarks.conversion import BUT, DTYPES, architectures, block_share, trains
from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers import conversion_report, convert, load, save, save_pretrained

EXAMPLE = Path(__file__).parents[2] / "examples" / "load_factors.py"


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    model = convert(Reader(), "phm", n=4).eval()
    return model, save(model, tmp_path / "model.safetensors")


def rewritten(path, change):
    """Write a copy of a file with a changed recipe."""
    with safetensors.safe_open(path, "pt") as file:
        recipe = json.loads(file.metadata()["phmrun"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(recipe, tensors)
    path.write_bytes(safetensors.save(tensors, {"phmrun": json.dumps(recipe)}))
    return path


@pytest.mark.parametrize(
    ("structure", "options"),
    [("phm", {"n": 4}), ("low-rank", {"rank": 4}), ("monarch", {}), ("guided", {"of": "phm", "options": "n=2"})],
)
@torch.no_grad()
def test_loaded_model_has_equal_outputs(structure, options, tmp_path):
    torch.manual_seed(0)
    model = convert(Reader(), structure, **options).eval()
    loaded = load(lambda: Reader(1), save(model, tmp_path / "model.safetensors")).eval()
    assert torch.equal(loaded(TOKENS), model(TOKENS))
    assert conversion_report(loaded) == conversion_report(model)
    assert loaded.output.structure is loaded.table.structure


@torch.no_grad()
def test_two_structures_and_a_wrapper_are_restored(tmp_path):
    model = convert(convert(Reader(), "low-rank", rank=2, names=["table", "output"]), "phm", n=2, names="block*")
    outer = nn.Sequential(model, nn.Linear(48, 4)).eval()
    loaded = load(lambda: nn.Sequential(Reader(1), nn.Linear(48, 4)), save(outer, tmp_path / "m.safetensors")).eval()
    assert torch.equal(loaded(TOKENS), outer(TOKENS))


@torch.no_grad()
def test_a_file_of_factors_alone_warns_that_nothing_is_repaired(tmp_path, caplog):
    save(convert(nn.Sequential(nn.Linear(64, 64)), "phm", n=2), tmp_path / "model.safetensors", precision="int4+8")
    assert "int4+8: the file has no dense linear maps" in caplog.text


def test_four_bits_are_rounded_by_groups_and_factors_repair_the_outputs(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(48, 32), nn.Linear(32, 64), nn.Linear(64, 32, bias=False)).eval()
    inputs = torch.randn(500, 32) * torch.logspace(0, -2, 32)
    moments = {"1": inputs.t() @ inputs / 500}
    errors, sizes = [], []
    for precision in ("int4", "int4+8", "int8", "int8+8"):
        path = save(model, tmp_path / precision, precision=precision, moments=moments)
        loaded = load(lambda: copy.deepcopy(model), path)
        gaps = [(a - b).abs() for a, b in zip(loaded.parameters(), model.parameters(), strict=True)]
        assert float(gaps[0].max()) < 0.02  # a table has 8 bits
        assert torch.equal(loaded[1].bias, model[1].bias)
        if precision == "int4":
            groups = model[2].weight.unflatten(-1, (-1, 32)).abs().amax(-1, keepdim=True)
            assert bool((gaps[3].unflatten(-1, (-1, 32)) <= groups / 8 + 1e-6).all())
        errors.append(float((loaded[1](inputs) - model[1](inputs)).square().mean()))
        sizes.append(path.stat().st_size)
        by_example = runpy.run_path(str(EXAMPLE))["dense_weights"](path)
        assert all(torch.equal(value, by_example[name]) for name, value in loaded.state_dict().items())
    assert errors[0] > 4 * errors[1] > 4 * errors[2] > 4 * errors[3]
    assert sizes[0] < sizes[2]


@pytest.mark.parametrize("name", ["GPT-2", "BERT", "Llama", "T5"])
def test_networks_of_transformers(name, tmp_path):
    pytest.importorskip("transformers")
    architecture = architectures()[name]
    torch.manual_seed(0)
    model = convert(architecture.build(), "phm", n=4, but=BUT).eval()
    assert block_share(model, architecture.blocks) > 0.98
    left = {layer.kind for layer in conversion_report(model).left if layer.matrix and architecture.blocks in layer.name}
    assert not left
    with torch.no_grad():
        logits = model(**architecture.inputs).logits
    assert all(trains(model, architecture, dtype) for dtype in DTYPES)
    with pytest.raises(PhmrunError, match="frozen weights, which a folder cannot hold"):
        save_pretrained(convert(architecture.build(), "added", of="low-rank", but=BUT), tmp_path / "updates")
    with pytest.raises(PhmrunError, match="int3"):
        save(model, tmp_path / "model.safetensors", precision="int3")
    path = save(model, tmp_path / "model.safetensors")
    with torch.no_grad():
        assert torch.equal(load(architecture.build, path).eval()(**architecture.inputs).logits, logits)
    assert path.stat().st_size < 1.25 * 4 * conversion_report(model).after  # the networks are tiny, the names are not


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda recipe, tensors: recipe["steps"][0].update(structure="evil"), "evil"),
        (lambda recipe, tensors: recipe["steps"][0].update(options={"n": 2}), r"in the model|parameters"),
        (lambda recipe, tensors: recipe["steps"][0].update(options={"n": "x"}), "x"),
        (lambda recipe, tensors: recipe["steps"][0].update(options={"m": 2}), "no option 'm'"),
        (lambda recipe, tensors: recipe["steps"][0].update(structure="blast", options={"rank": 10**20}), "no larger"),
        (lambda recipe, tensors: recipe["steps"][0]["places"].append("nowhere"), "no layer 'nowhere'"),
        (
            lambda recipe, tensors: recipe["steps"][0].update(structure="low-rank", options={"rank": 10**9}),
            r"rank|parameters",
        ),
        (lambda recipe, tensors: recipe["steps"].clear(), "table.weight is missing"),
        (lambda recipe, tensors: recipe.update(steps=3), "recipe is damaged"),
        (lambda recipe, tensors: recipe.update(format=2), "should be 1, not 2"),
        (lambda recipe, tensors: recipe["tied"].update(a="b"), "file is damaged"),
        (lambda recipe, tensors: tensors.update(scale=torch.ones(3)), r"scale is \[3\]"),
        (lambda recipe, tensors: tensors.pop("scale"), "scale is missing"),
    ],
)
def test_a_file_that_does_not_fit_is_one_error(saved, change, message):
    with pytest.raises(PhmrunError, match=message) as caught:
        load(Reader, rewritten(saved[1], change))
    assert caught.value.code == ExitCode.DATA


@pytest.mark.parametrize("size", [0, 7, 200, -10])
def test_a_truncated_file_is_one_error(saved, size):
    saved[1].write_bytes(saved[1].read_bytes()[:size])
    with pytest.raises(PhmrunError, match="damaged") as caught:
        load(Reader, saved[1])
    assert caught.value.code == ExitCode.DATA
    with pytest.raises(PhmrunError, match="there is no such file"):
        load(Reader, saved[1].with_name("none"))
