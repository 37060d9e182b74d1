"""Exports with factors: small files, equal outputs, readable without phmrun."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from built_networks import built
from test_export_graphs import NETWORKS, graph_of

from phmrun.exchange.factored import factored_copy
from phmrun.exchange.formats import export
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.layers import load
from phmrun.layers.network import structures_of
from phmrun.layers.structure import Structure
from phmrun.ledger.run import Run
from phmrun.models.transformer import Transformer
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.text.vocabularies import Vocabularies, train_vocabulary

pytestmark = pytest.mark.long

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


def test_factors_are_exported_loaded_and_read_without_phmrun(tmp_path):
    lines, networks = ["import sys, runpy; sys.modules['phmrun'] = None"], {}
    for name, structure in STRUCTURES.items():
        trained = trained_run(tmp_path / name, layer=structure, embedding=structure, tie="all")
        program = trained.module.export_graph()
        exported = export(trained, None, "safetensors", factored=True)
        assert exported.path.name == "model-factored.safetensors"
        assert exported.difference < 1e-6
        loaded = load(lambda program=program: program.network, exported.path)
        names = {part.name for part in loaded.modules() if isinstance(part, Structure)}
        assert names == {structure["structure"]}
        networks[tmp_path / f"{name}.safetensors"] = trained.module.export_graph().network
        lines.append(f"sys.argv[1:] = [{str(exported.path)!r}, {str(tmp_path / f'{name}.safetensors')!r}]")
        lines.append(f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')")
    subprocess.run([sys.executable, "-I", "-c", "\n".join(lines)], check=True, capture_output=True, text=True)
    from safetensors.torch import load_file

    for path, network in networks.items():
        weights, expected = load_file(path), network.state_dict()
        assert weights.keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(weights[key], value, rtol=1e-5, atol=1e-6, msg=f"{path.stem}: {key}")


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
