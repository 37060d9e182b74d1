import json
import sys
import types

import pytest

from phmrun.cli.bench_layers import _batch
from phmrun.cli.measuring import name_and_options, sides
from phmrun.errors import PhmrunError

SMALL = ["--shape", "16x32", "--tokens", "1,4", "--training-tokens", "8", "--repeats", "1"]


@pytest.fixture(autouse=True)
def _small_cache(monkeypatch):
    """Few cold copies, and no warning of what else goes on."""
    from phmrun.bench import layers, machine

    monkeypatch.setattr(layers, "last_level_cache", lambda: 10_000)
    monkeypatch.setattr(machine, "load_average", lambda: 0.0)


def test_layers_json(phmrun):
    result = phmrun("bench", "layers", "--layer", "phm", "--n", "2,4", *SMALL, "--json")
    assert result.code == 0
    report = json.loads(result.out)
    assert {"processor", "threads", "torch", "device"} <= report["machine"].keys()
    assert len(report["rows"]) == 2 * (1 + 2 * 2)
    assert report["rows"][0].keys() == {
        "module", "layer", "in_features", "out_features", "mode", "weights", "batch", "reference", "seconds", "ratios",
        "auto", "gflops",
    }  # fmt: skip
    assert "memory" not in report
    assert {row["layer"] for row in report["rows"]} == {"phm n=2", "phm n=4"}
    assert {(row["in_features"], row["out_features"]) for row in report["rows"]} == {(16, 32)}


def test_layers_table(phmrun):
    result = phmrun("bench", "layers", "--layer", "dense", "--layer", "phm n=4 variant=released", *SMALL)
    assert result.code == 0
    assert "linear: training step" in result.out
    assert "linear: inference" in result.out
    assert "nn.Linear" in result.out
    lines = [line.split() for line in result.out.splitlines() if line.startswith("phm n=4 variant=released")]
    assert [line[6] for line in lines[1:]] == ["1", "4", "1", "4"]
    assert [line[7] for line in lines[1:]] == ["hot", "hot", "cold", "cold"]


def test_every_registered_structure_unless_some_are_named(phmrun, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from phmrun.layers import register\n"
        "from phmrun.layers.structures.dense import Dense\n"
        "@register('mine-of-the-bench')\n"
        "class Mine(Dense):\n"
        "    pass\n"
    )
    result = phmrun("bench", "layers", "--plugin", str(plugin), "--n", "2", *SMALL, "--json")
    layers = {row["layer"].split()[0] for row in json.loads(result.out)["rows"]}
    assert {"dense", "phm", "mine-of-the-bench"} <= layers


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--layer", "phn"], "Did you mean 'phm'?"),
        (["--layer", "phm m=2"], "the layer 'phm' has no option 'm'"),
        (["--layer", "phm n"], "--layer 'phm n=8'"),
        (["--layer", "phm", "--n", "3"], "n = 3 does not divide"),
        (["--shape", "16"], "INxOUT"),
        (["--n", "two"], "--n: 'two'"),
        (["--tokens", "0"], "--tokens: '0'"),
        (["--module", "liner"], "Did you mean 'linear'?"),
        (["--module", "all", "--tokens", "1"], "one module at a time"),
        (["--module", "lstm", "--tokens", "8"], "Write it like 256x30."),
        (["--tokens", "8x8"], "no batch of linear"),
        (["--precision", "float16"], "valid: bfloat16, float32"),
    ],
)
def test_usage_errors_of_layers(phmrun, arguments, text):
    result = phmrun("bench", "layers", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert text in result.err


def test_every_module_against_its_own_reference(phmrun, monkeypatch):
    from phmrun.bench import modules
    from phmrun.bench.modules import Sizes

    small = {"linear": (8, 8), "output": (8, 16), "embedding": (32, 8), "lstm": (8, 8), "biaffine": (8, 1)}
    for name, shape in small.items():
        batch = (2, 3)[: len(modules.MODULE_KINDS[name].sizes.batches[0])]
        owner = modules.MODULE_KINDS[name]
        if name in ("linear", "output"):
            changed = modules.LinearKind(name, Sizes((shape,), (batch,), (batch,)))
            monkeypatch.setitem(modules.MODULE_KINDS, name, changed)
        else:
            monkeypatch.setattr(type(owner), "sizes", Sizes((shape,), (batch,), (batch,)))
    arguments = [
        "bench",
        "layers",
        "--module",
        "all",
        "--n",
        "2",
        "--repeats",
        "1",
        "--layer",
        "phm",
    ]
    squares = ["--layer", "circulant", "--layer", "symmetric"]
    result = phmrun(*arguments, *squares, "--rows", "1000", "--json")
    assert result.code == 0
    report = json.loads(result.out)
    references = {row["module"]: row["reference"] for row in report["rows"]}
    assert references == {
        "linear": "nn.Linear", "output": "nn.Linear", "embedding": "nn.Embedding", "lstm": "nn.LSTM",
        "biaffine": "dense einsum",
    }  # fmt: skip
    structures = {(row["module"], row["layer"].split()[0]) for row in report["rows"]}
    assert {(module, "phm") for module in small} <= structures
    assert {("biaffine", "circulant"), ("lstm", "circulant"), ("linear", "symmetric")} <= structures
    assert ("output", "circulant") not in structures
    assert "left out: output, circulant, 8 → 16" in result.err
    assert all(row["rows"] == 1000 and row["parameters"] > 0 for row in report["memory"])
    result = phmrun(*arguments, "--rows", "1000")
    for name in small:
        assert f"{name}: training step" in result.out
        assert f"{name}: inference" in result.out
    assert "a lookup of 640 vectors" in result.out


def test_shapes_and_structures():
    assert _batch("640", "") == (640,)
    assert _batch("256×30", "") == (256, 30)
    assert sides("512x2048") == sides("512×2048") == (512, 2048)
    assert name_and_options("phm n=8 variant=released", "--layer") == ("phm", {"n": 8, "variant": "released"})
    with pytest.raises(PhmrunError):
        sides("x2048")


@pytest.fixture
def measured(monkeypatch):
    """Stands in for ``phmrun.bench.run``, records what it is asked for, and answers with a report of two phases."""
    import phmrun.bench
    from phmrun.bench.run_report import Phase, Report
    from phmrun.bench.timing import Operation, Timing

    asked = {}

    def bench_run(run, **options):
        asked.update(options, run=run)
        names = ["run", *options["against"]]
        timings = {name: Timing((float(number),)) for number, name in enumerate(names, start=2)}
        profile = [Operation("aten::mm", 3, 0.5, 0.25)] if options["profiled"] else []
        phases = [
            Phase("greedy, batch 1", "sentences", 10, timings, 2**20, profile, "factored"),
            Phase("training", "target tokens", 8_000, timings, 3 * 2**20, profile),
        ]
        return Report(run, "phm n=2", {"processor": "fast", "threads": 2, "torch": "2", "device": "cpu"}, phases)

    module = types.ModuleType("phmrun.bench.run")
    module.bench_run = bench_run
    monkeypatch.setitem(sys.modules, "phmrun.bench.run", module)
    monkeypatch.setattr(phmrun.bench, "run", module, raising=False)
    return asked


def test_run_table(phmrun, measured, run_dir):
    result = phmrun("bench", "run", str(run_dir), "--against", "hf", "--against", "dense", "--profile")
    assert result.code == 0
    training = next(line for line in result.out.splitlines() if line.startswith("training"))
    assert training.split() == [
        "training", "target", "tokens", "4,000.00", "2,666.67", "1.50×", "2,000.00", "2.00×", "3", "MiB",
    ]  # fmt: skip
    assert "phm n=2" in result.out
    assert "aten::mm" in result.out


def test_run_json_and_what_is_asked_for(phmrun, measured, run_dir):
    options = ["--only", "training", "--batches", "3", "--sentences", "128", "--single", "5", "--batch-size", "8"]
    result = phmrun("bench", "run", str(run_dir), *options, "--json")
    assert json.loads(result.out)["run_id"] == run_dir.name
    assert measured["run"].path == run_dir
    assert measured["against"] == []
    assert measured["parts"] == ("training",)
    amount = measured["amount"]
    assert (amount.rounds, amount.batches, amount.sizes, amount.sentences, amount.single) == (5, 3, [8], 128, 5)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--against", "marian"], "there is no run 'marian'"),
        (["--only", "speed"], "valid: decoding, training"),
    ],
)
def test_usage_errors_of_run(phmrun, run_dir, arguments, text):
    result = phmrun("bench", "run", str(run_dir), *arguments)
    assert result.code == 2
    assert text in result.err


def test_unknown_run(phmrun, run_dir):
    result = phmrun("bench", "run", "nmt-bulitin-phm-7-0123456789ab", "--runs-dir", str(run_dir.parent))
    assert result.code == 2
    assert run_dir.name in result.err
