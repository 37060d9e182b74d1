"""Every kind of network as one function: folded it gives the trained network's outputs, in every format there is."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from built_networks import built

from phmrun.engine.module import outputs_of
from phmrun.exchange.formats import export, largest_difference
from phmrun.families.sentence_classification.module import classification_graph
from phmrun.layers.structure import Structure
from phmrun.ledger.run import Run
from phmrun.models.sentences import LSTMClassifier
from phmrun.tasks.lm.lstm import LSTMLanguageModel
from phmrun.tasks.lm.module import language_model_graph
from phmrun.tasks.lm.transformer_xl import TransformerXL
from phmrun.tasks.parse.biaffine_parser import BiaffineParser
from phmrun.tasks.parse.module import parser_graph
from phmrun.tasks.sva.encoder_classifier import EncoderClassifier

pytestmark = pytest.mark.long

PHM = {"structure": "phm", "n": 4}
DEFINE = {"structure": "define", "width": 8, "expansion": 32, "depth": 2, "max_groups": 4, "multiple_of": 8}
PROJECTIVE = {"structure": "projective", "width": 4}
CLUSTERS = {"structure": "adaptive", "cutoffs": [8, 20]}


def lstm(**options):
    return built(LSTMLanguageModel, 40, width=16, hidden=24, layers=2, output_bias=True, layer=PHM, **options)


def transformer_xl(**options):
    sizes = {"width": 16, "inner": 32, "heads": 2, "head_width": 8, "layers": 2, "memory": 3}
    return built(TransformerXL, 40, **sizes, output_bias=True, layer=PHM, **options)


def parser(**options):
    sizes = {"word_width": 16, "tag_width": 16, "character_width": 8, "character_hidden": 8, "hidden": 8, "layers": 2}
    rare = (5,) if "fixed_width" in options else ()
    return built(BiaffineParser, 32, 12, 20, 4, *rare, **sizes, arc_width=8, label_width=8, layer=PHM, **options)


def encoder(**options):
    return built(EncoderClassifier, 32, 3, width=16, feedforward=32, heads=2, layer=PHM, output=PHM, **options)


def pair_reader(**options):
    return built(LSTMClassifier, 32, 3, width=16, hidden=8, mlp=8, layer=PHM, bidirectional=True, **options)


NETWORKS = {
    "encoder": (encoder, {"embedding": DEFINE, "pooling": "max-mean"}, classification_graph),
    "encoder-last": (encoder, {"embedding": CLUSTERS, "pooling": "last"}, classification_graph),
    "lstm-pairs": (pair_reader, {"embedding": PHM}, partial(classification_graph, sentences=2)),
    "lstm-prefixes": (pair_reader, {"embedding": PROJECTIVE, "sentences": 1}, classification_graph),
    "lstm-lm": (lstm, {"embedding": PHM}, language_model_graph),
    "lstm-lm-define": (lstm, {"embedding": DEFINE}, language_model_graph),
    "lstm-lm-adaptive": (lstm, {"embedding": CLUSTERS, "tie": False}, language_model_graph),
    "transformer-xl": (transformer_xl, {"embedding": PHM}, language_model_graph),
    "transformer-xl-define": (transformer_xl, {"embedding": DEFINE}, language_model_graph),
    "transformer-xl-adaptive": (transformer_xl, {"embedding": CLUSTERS}, language_model_graph),
    "parser": (parser, {"embedding": PHM}, parser_graph),
    "parser-v2": (parser, {"cell": "parser-v2"}, parser_graph),
    "parser-fixed": (parser, {"cell": "parser-v2", "fixed_width": 8}, parser_graph),
    "parser-circulant": (parser, {"output": {"structure": "circulant"}}, parser_graph),
}


def graph_of(name):
    torch.manual_seed(1)
    build, options, describe = NETWORKS[name]
    return describe(build(**options).eval())


def trained(name, directory):
    """Stand-in for a trained run in an export."""
    program = graph_of(name)
    return SimpleNamespace(
        run=Run(directory),
        load=lambda *_: "best@7",
        module=SimpleNamespace(export_graph=lambda: program),
    )


@torch.no_grad()
@pytest.mark.parametrize("name", NETWORKS)
def test_the_folded_function_is_the_trained_networks(name):
    program = graph_of(name)
    assert largest_difference(program, program.function) < 1e-5
    assert {part.name for part in program.network.modules() if isinstance(part, Structure)} <= {"dense"}
    for inputs in program.examples:
        assert len(inputs) == len(program.inputs)
        assert len(outputs_of(program.function, inputs)) == len(program.outputs)
        for tensor, sizes in zip(inputs, program.inputs.values(), strict=True):
            pairs = zip(tensor.shape, sizes, strict=True)
            assert all(size == wanted for size, wanted in pairs if isinstance(wanted, int))


@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("name", ["transformer-xl-adaptive", "encoder"])
def test_graphs_travel(name, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    stand_in = trained(name, tmp_path)
    exported = export(stand_in, None, "onnx")
    assert exported.difference < 1e-4
    assert exported.bytes > 0
    lengths = (511, 512, 513, 1040) if len(exported.inputs) == 1 else ()
    tokens = [(torch.randint(4, 32, (2, length)),) for length in lengths]
    program = replace(stand_in.module.export_graph(), examples=tokens)
    assert largest_difference(program, session(exported.path)) < 1e-5


def session(path):
    """Function that runs an ONNX file."""
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [item.name for item in graph.get_inputs()]
    return lambda *inputs: tuple(
        torch.from_numpy(output)
        for output in graph.run(None, {name: x.numpy() for name, x in zip(names, inputs, strict=True)})
    )


@torch.no_grad()
def test_word_by_word_is_the_whole_text():
    torch.manual_seed(1)
    network = lstm(embedding=DEFINE).eval()
    program = language_model_graph(network)
    words = torch.randint(40, (2, 9))
    wanted = network.output.log_prob(network(words).outputs)
    state = [torch.zeros(2, size) for _, size in list(program.inputs.values())[1:]]
    for place in range(words.shape[1]):
        actual, *state = program.function(words[:, place], *state)
        torch.testing.assert_close(actual, wanted[:, place], rtol=1e-4, atol=1e-5)
