"""Cost of serving: formats of a run, measurements in processes of their own, and where they are shown."""

from pathlib import Path

import pytest
import torch
from random_transformers import network

from phmrun.decoding.search import translate
from phmrun.exchange.formats import Format, _export_file
from phmrun.exchange.onnx_engine import OnnxModel
from phmrun.families.sequence_to_sequence.graph import translation_graph
from phmrun.ledger import Run, listing
from phmrun.ledger.card import SERVING, card
from phmrun.models.incremental import IncrementalTransformer
from phmrun.results.costs import COSTS
from phmrun.sweeps.serving import serve_all
from phmrun.text.vocabulary import BOS, EOS, PAD

pytestmark = pytest.mark.long


@pytest.fixture
def run(tiny_run):
    """Run of a tiny translator with structured maps."""
    return tiny_run("nmt")


def test_a_factored_file_serves_the_same_outputs_from_fewer_bytes(run):
    exact, small = serve_all(run, [Format("checkpoint"), Format("safetensors", factored=True)])
    assert small.changed == exact.changed == 0
    assert small.score == exact.score
    assert small.difference < 1e-4
    assert small.sentences == exact.sentences > 0
    assert small.bytes < exact.bytes
    assert small.bytes == small.path.stat().st_size
    assert min(small.single_ms, small.batch_ms, small.latency_ratio, exact.peak_memory) > 0
    run.add_bench({f"{SERVING}{item.format.label}": item.to_json() for item in (exact, small)})
    page = card(Run(run.path, lenient=True))
    assert "## Cost of serving" in page
    assert "safetensors factored" in page
    (summary,) = listing.list_runs(run.path.parent)
    assert COSTS["file-size"].of(summary) == small.bytes
    assert COSTS["latency"].of(summary) == small.single_ms


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_onnx_graphs_find_the_translations_of_the_network(tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(5)
    transformer = network(24, tie="none", output_bias=True)
    transformer.output.bias[EOS] += 1.0
    program = translation_graph(transformer)
    for name, part in program.parts.items():
        _export_file(part, Path(tmp_path) / f"{name}.onnx", Format("onnx"), {})
    sources = [[5, 6, 7, EOS], [9, EOS], [], [8, 4, 11, 12, 13, EOS]]
    settings = {"beam": 3, "alpha": 0.6, "bos": BOS, "eos": EOS, "pad": PAD, "batch": 3}
    theirs = translate(OnnxModel(tmp_path), sources, **settings)
    ours = translate(IncrementalTransformer(transformer, PAD).eval(), sources, **settings)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[0].tokens == other[0].tokens
        assert mine[0].score == pytest.approx(other[0].score, abs=1e-4)
