"""Exports with factors: small files, equal outputs, readable without phmrun."""

import json
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from built_networks import built
from random_transformers import network
from test_export_graphs import NETWORKS, graph_of
from torch import nn

from phmrun.exchange.factored import factored_copy
from phmrun.exchange.formats import Format, _export_file, export, read_weights
from phmrun.families.sequence_to_sequence.graph import translation_graph
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.layers import folded, load, save
from phmrun.layers.biaffine import Biaffine
from phmrun.layers.network import replace_structures, structures_of
from phmrun.layers.report import parameter_count
from phmrun.layers.structure import Structure
from phmrun.ledger.run import Run
from phmrun.models.transformer import Transformer
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.tasks.parse.biaffine_parser import BiaffineParser
from phmrun.tasks.parse.module import parser_graph
from phmrun.text.vocabularies import Vocabularies, train_vocabulary

EXAMPLE = Path(__file__).parents[2] / "examples" / "load_factors.py"
STRUCTURES = {
    "phm": {"structure": "phm", "n": 4},
    "phm-dual": {"structure": "phm", "n": 4, "dual": True},
    "phm-released": {"structure": "phm", "n": 4, "variant": "released"},
    "low-rank": {"structure": "low-rank", "rank": 3},
    "kronecker": {"structure": "kronecker", "rank": 3},
    "monarch": {"structure": "monarch", "budget": "1/2"},
    "block-circulant": {"structure": "block-circulant", "size": 4},
    "group": {"structure": "group", "groups": 4},
}


def trained_run(directory, **options):
    """Stand-in for a trained run around a small untrained Transformer."""
    torch.manual_seed(3)
    sizes = {"width": 24, "feedforward": 48, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    transformer = built(Transformer, 40, 40, **sizes, **options).eval()
    module = SequenceToSequenceModule(transformer, None, None, smoothing=0.0)
    vocabulary = train_vocabulary([" ".join(f"w{number}" for number in range(36))], kind="word", size=40)
    config = TranslationExperiment()
    run = Run(directory)
    vocabularies = Vocabularies(vocabulary, vocabulary)
    return SimpleNamespace(run=run, load=lambda *_: "best@7", module=module, vocabulary=vocabularies, config=config)


@pytest.mark.parametrize("name", STRUCTURES)
def test_factors_are_exported_loaded_and_read_without_phmrun(name, tmp_path):
    trained = trained_run(tmp_path, layer=STRUCTURES[name], embedding=STRUCTURES[name], tie="all")
    program = trained.module.export_graph()
    exported = export(trained, None, "safetensors", factored=True)
    assert exported.path.name == "model-factored.safetensors"
    assert exported.difference < 1e-6
    loaded = load(lambda: program.network, exported.path)
    names = {part.name for part in loaded.modules() if isinstance(part, Structure)}
    assert names == {STRUCTURES[name]["structure"]}
    dense = tmp_path / "dense.safetensors"
    blocked = (
        f"import sys, runpy; sys.modules['phmrun'] = None; sys.argv[1:] = [{str(exported.path)!r}, {str(dense)!r}]"
    )
    command = [sys.executable, "-I", "-c", f"{blocked}; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    from safetensors.torch import load_file

    weights = load_file(dense)
    expected = trained.module.export_graph().network.state_dict()
    assert weights.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(weights[key], value, rtol=1e-5, atol=1e-6)


def test_files_shrink_with_factors_and_precision(tmp_path):
    torch.manual_seed(3)
    layer = {"structure": "phm", "n": 8}
    transformer = network(608, width=128, feedforward=512, layer=layer, embedding=layer, tie="all")
    module = SimpleNamespace(network=transformer, export_graph=lambda: translation_graph(transformer))
    trained = SimpleNamespace(run=Run(tmp_path), load=lambda *_: "best@7", module=module)
    write = partial(export, trained, None, "safetensors")
    folded_file, factored_file = write(), write(factored=True)
    half, eighth = (write(factored=True, precision=precision) for precision in ("bfloat16", "int8"))
    parameters = sum(parameter.numel() for parameter in transformer.parameters())
    assert factored_file.bytes < folded_file.bytes / 4
    assert factored_file.bytes < 4.6 * parameters
    assert half.bytes < 0.65 * factored_file.bytes
    assert eighth.bytes < half.bytes
    assert 0 < half.difference < 0.1
    assert 0 < eighth.difference < 0.1
    assert len({exported.path for exported in (folded_file, factored_file, half, eighth)}) == 4
    weights = read_weights(module.export_graph(), eighth.path).state_dict()
    exact = module.export_graph().network.state_dict()
    for key, value in exact.items():
        torch.testing.assert_close(weights[key], value, rtol=0, atol=0.05 * float(value.abs().max()) + 1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_all_tasks_keep_their_factors(name, tmp_path):
    program = graph_of(name)
    run = Run(tmp_path)
    module = SimpleNamespace(export_graph=lambda: program)
    trained = SimpleNamespace(run=run, load=lambda *_: "best@7", module=module)
    assert export(trained, None, "safetensors", factored=True).difference < 1e-5
    factored, kept = (
        {place for place, part in structures_of(network).items() if part.name != "dense"}
        for network in (program.trained, factored_copy(program.trained, program.network))
    )
    assert factored - {"embedding.tables.0"} == kept  # a language model's plain table is at another place


@torch.no_grad()
@pytest.mark.parametrize(
    ("cell", "part"), [("coupled", ""), ("coupled", "label_classifier"), ("plain", ""), ("parser-v2", "")]
)
def test_factors_of_single_gates_and_labels_make_the_file_smaller(cell, part, tmp_path):
    torch.manual_seed(3)
    sizes = {"word_width": 48, "tag_width": 16, "character_width": 8, "character_hidden": 8, "hidden": 48, "layers": 1}
    parser = built(BiaffineParser, 32, 12, 20, 4, **sizes, arc_width=32, label_width=32, cell=cell).eval()
    matrices = {place: part for place, part in structures_of(parser).items() if ".maps." in place or ".cells." in place}
    layers = {place: {"structure": "low-rank", "rank": 2} for place in list(matrices)[::2] if part in place}
    replace_structures(parser, layers)
    for part in structures_of(parser).values():
        part.reset_parameters(0.1)
    program = parser_graph(parser)
    module = SimpleNamespace(export_graph=lambda: program)
    trained = SimpleNamespace(run=Run(tmp_path), load=lambda *_: "best@7", module=module)
    exported = export(trained, None, "safetensors", factored=True)
    assert exported.difference < 1e-5
    copied = factored_copy(program.trained, program.network)
    assert {place for place, part in structures_of(copied).items() if part.name == "low-rank"} == layers.keys()
    biases = sum(value.numel() for name, value in copied.state_dict().items() if name.endswith(".bias"))
    assert parameter_count(copied) <= parameter_count(parser) + biases
    assert export(trained, None, "safetensors").bytes > 1.2 * exported.bytes


@torch.no_grad()
def test_matrices_of_biaffine_forms_are_read_without_phmrun(tmp_path):
    torch.manual_seed(3)
    form = Biaffine(8, 3, structure="low-rank", rank=2)
    network = nn.ModuleDict({"form": form})
    path = save(factored_copy(network, folded(network)), tmp_path / "factored.safetensors")
    weights = runpy.run_path(str(EXAMPLE))["dense_weights"](path)
    for number, weight in enumerate(form.weight):
        torch.testing.assert_close(weights[f"form.maps.{number}.matrix"], weight)
    assert weights.keys() == folded(network).state_dict().keys()


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_onnx_holds_factors_and_no_dense_matrix(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    layer = {"structure": "phm", "n": 4}
    for maps in ("joint", "separate"):
        trained = trained_run(tmp_path, layer=layer, embedding=layer, tie="all", attention_maps=maps)
        exported = export(trained, None, "onnx", factored=True)
        assert exported.path.name == "onnx-factored"
        assert exported.difference < 1e-4
        assert json.loads((exported.path / "phmrun.json").read_text())["run"] == tmp_path.name
        dense = {tuple(value.shape) for value in trained.module.export_graph().network.state_dict().values()}
        dense = {shape for shape in dense if len(shape) == 2 and min(shape) > 1}
        for part in exported.parts.values():
            stored = {tuple(item.dims) for item in onnx.load(part.path).graph.initializer}
            assert any(len(shape) == 3 and shape[0] == 4 for shape in stored)
            assert not stored & {*dense, *((columns, rows) for rows, columns in dense)}


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("factored", [False, True])
def test_onnx_of_rounded_weights_is_smaller_and_nearly_equal(factored, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(3)
    transformer = network(304, width=64, feedforward=256, layer={"structure": "phm", "n": 4}, tie="all")
    sizes = {}
    program = translation_graph(transformer)
    for precision in ("none", "bfloat16", "int8"):
        form = Format("onnx", factored, precision)
        part = replace(program.parts["encoder"], trained=program.trained)
        exported = _export_file(part, tmp_path / f"{precision}.onnx", form, {})
        sizes[precision] = exported.bytes
        assert exported.difference < (1e-4 if precision == "none" else 0.15)
    assert sizes["int8"] < sizes["bfloat16"] < 0.9 * sizes["none"]
