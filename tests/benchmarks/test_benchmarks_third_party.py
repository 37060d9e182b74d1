"""Layers of other packages: left out and said so where these are missing; the same function as ours where they are."""

import pytest
import torch

from benchmarks import third_party
from phmrun.bench.layers import measure
from phmrun.bench.modules import MODULE_KINDS
from phmrun.layers.structures.phm import PHM


def made(name, package, shape, n):
    if package in third_party.missing():
        pytest.skip(f"{package} is not installed")
    actual = {other.label: other for other in third_party.other_layers(third_party.KINDS[name], [n], [shape])}
    return actual[f"{package} n={n}"]


@pytest.mark.parametrize("package", third_party.PACKAGES)
def test_a_linear_map_has_the_parameters_of_ours(package):
    module = made("linear", package, (16, 32), 4).build()
    assert sum(parameter.numel() for parameter in module.parameters()) == PHM.count(32, 16, n=4) + 32
    assert module(torch.randn(3, 16)).shape == (3, 32)


def test_an_embedding_has_the_parameters_of_ours():
    module = made("embedding", "tensorly-torch", (64, 16), 4).build()
    assert sum(parameter.numel() for parameter in module.parameters()) == PHM.count(64, 16, n=4)
    assert module(torch.tensor([3, 5])).shape == (2, 16)


@pytest.mark.parametrize("package", third_party.PACKAGES)
def test_they_are_measured(package):
    other = made("linear", package, (16, 32), 4)
    rows = list(measure([other], batches=[(2,)], training=[(2,)], rounds=1, cache=20_000, at_least=0.0))
    assert [(row.mode, row.weights) for row in rows] == [
        ("training", "hot"),
        ("inference", "hot"),
        ("inference", "cold"),
    ]
    assert all(list(row.ratios) == ["unfolded"] and row.auto == "unfolded" for row in rows)


def test_only_sizes_that_fit_and_modules_that_they_have(monkeypatch):
    monkeypatch.setattr(third_party, "missing", list)
    labels = [other.label for other in third_party.other_layers(third_party.KINDS["linear"], [2, 3], [(16, 32)])]
    assert labels == ["tensorly-torch n=2"]
    assert third_party.other_layers(MODULE_KINDS["lstm"], [2]) == []


def test_what_is_missing_is_left_out(monkeypatch):
    monkeypatch.setattr(third_party, "installed", lambda name: False)
    assert third_party.missing() == ["tensorly-torch"]
    assert third_party.other_layers(third_party.KINDS["linear"], [2]) == []


def test_script_names_packages_that_are_missing(capsys, monkeypatch):
    monkeypatch.setattr(third_party, "installed", lambda name: False)
    sizes = ["--shape", "16x32", "--tokens", "1,4", "--training-tokens", "8", "--n", "2"]
    third_party.main([*sizes, "--repeats", "1"])
    shown = capsys.readouterr()
    assert "left out: layers of tensorly-torch: not installed" in shown.err
    assert "phm n=2" in shown.out
