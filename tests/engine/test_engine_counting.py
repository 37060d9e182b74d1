"""Parameter counts against closed forms written out here, and against the numbers of built models."""

import pytest
import torch
from structure_cases import CASES
from tiny_experiments import configured, everywhere

from phmrun.config import Source, resolve, task_defaults
from phmrun.engine.counting import count_network, count_parameters
from phmrun.engine.optimizers import build_optimizer
from phmrun.errors import PhmrunError
from phmrun.layers import Linear, build_structure, options_of
from phmrun.registry import OPTIMIZERS, TASKS
from phmrun.tasks.nmt.config import TranslationExperiment

FIXED = {
    **{"norm": "pre", "normalization": "layer", "positions": "sinusoidal", "attention_maps": "joint", "tie": "all"},
    **{"bias": False, "feedforward_bias": True, "output_bias": False},
}


def config_of(**values):
    values = {**values, "model": {"preset": "tiny", **FIXED, **values.get("model", {})}}
    return resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", values)], options_of).config


def closed_form(model, vocabulary, matrix, table, bias):
    """Parameters of a pre-norm Transformer with tied embeddings; ``matrix`` and ``table`` count one map of a size."""
    w, f = model.width, model.feedforward
    maps = matrix(3 * w, w) + matrix(w, w) if model.attention_maps == "joint" else 4 * matrix(w, w)
    attention = maps + (4 * w if bias else 0)
    feedforward = matrix(f, w) + matrix(w, f) + f + w
    norm = 2 * w
    encoder = model.encoder_layers * (attention + feedforward + 2 * norm) + norm
    decoder = model.decoder_layers * (2 * attention + feedforward + 3 * norm) + norm
    return {"encoder": encoder, "decoder": decoder, "embedding": table(vocabulary, w)}


@pytest.mark.parametrize("preset", ["tiny", "small", "base"])
@pytest.mark.parametrize("n", [None, 2, 8])
@pytest.mark.parametrize(("maps", "bias"), [("joint", False), ("separate", True)])
def test_the_closed_form(preset, n, maps, bias):
    layer = {"structure": "phm", "n": n} if n else {"structure": "dense"}
    config = config_of(layer=layer, model={"preset": preset, "attention_maps": maps, "bias": bias})

    def dense(rows, columns):
        return rows * columns

    def phm(rows, columns):
        return rows * columns // n + n**3

    counts = count_parameters(config, (1000, 1000))
    expected = closed_form(config.model, 1000, phm if n else dense, dense, bias)
    plain = closed_form(config.model, 1000, dense, dense, bias)
    assert {scope: entry["count"] for scope, entry in counts["by_scope"].items()} == expected
    assert {scope: entry["dense"] for scope, entry in counts["by_scope"].items()} == plain
    assert counts["total"] == sum(expected.values())
    assert counts["dense_total"] == sum(plain.values())
    assert counts["memory"]["weights"] == 4 * counts["total"]


def test_maps_of_an_embedding_leave_the_dense_count(tmp_path):
    define = {"embedding": {"structure": "define"}}
    maps = {"maps": [{"name": "define.expand.*", "layer": {"structure": "low-rank"}}]}
    plain, changed = (count_parameters(configured("lm", tmp_path, define, more), (64,)) for more in ({}, maps))
    assert changed["total"] < plain["total"]
    assert changed["dense_total"] == plain["dense_total"]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_counted_without_building_equals_built(name, options, tmp_path):
    config = configured("nmt", tmp_path / "corpus", everywhere(name, **options))
    counts = count_parameters(config, (128, 128))
    module = TASKS.get("nmt").load("module")(config, 128, 128)
    assert counts["total"] == sum(parameter.numel() for parameter in module.network.parameters())
    assert counts == count_network(module.network)
    dense = configured("nmt", tmp_path / "corpus")
    built = TASKS.get("nmt").load("module")(dense, 128, 128).network
    assert counts["dense_total"] == sum(parameter.numel() for parameter in built.parameters())
    maps = [module for module in counts["modules"] if module["structure"]]
    assert {entry["structure"] for entry in maps} == {name}
    assert all(entry["count"] == build_structure(name, *entry["shape"], **options).kept() for entry in maps)


@pytest.mark.parametrize("task", ["sva", "nli"])
def test_padded_classes_are_not_in_the_dense_total(task, tmp_path):
    outputs = ({"output": {"structure": "phm", "n": 4}}, {})
    padded, dense = (count_parameters(configured(task, tmp_path / "corpus", values)) for values in outputs)
    assert padded["dense_total"] == dense["dense_total"] == dense["total"]


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_the_optimizers_numbers_are_those_that_it_keeps(name):
    try:
        network = Linear(6, 4, bias=False)
        optimizer = build_optimizer(network, name=name)
    except PhmrunError as error:
        pytest.skip(error.what)
    network(torch.ones(1, 6)).sum().backward()
    optimizer.step()
    kept = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    numbers = sum(value.numel() for value in kept if value.dim() == 2)
    assert count_network(network, name)["memory"]["optimizer"] == 4 * numbers
