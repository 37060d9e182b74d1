import json

import pytest

from phmrun.bench.run import Amount, Phase
from phmrun.bench.timing import Timing

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
        "layer", "in_features", "out_features", "mode", "weights", "tokens", "seconds", "ratios", "auto",
    }  # fmt: skip
    assert {row["layer"] for row in report["rows"]} == {"phm n=2", "phm n=4"}
    assert {(row["in_features"], row["out_features"]) for row in report["rows"]} == {(16, 32)}


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
        (["--layer", "phm m=2"], "layer 'phm' has no option 'm'"),
        (["--layer", "phm n"], "n of layer 'phm': ''"),
        (["--layer", "phm", "--n", "3"], "n = 3 does not divide"),
        (["--shape", "16"], "INxOUT"),
        (["--tokens", "0"], "--tokens: '0'"),
    ],
)
def test_usage_errors_of_layers(phmrun, arguments, text):
    result = phmrun("bench", "layers", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert text in result.err


def test_run_table_and_json(phmrun, run_dir, monkeypatch):
    from phmrun.bench import run as bench

    asked = {}

    def measure(run, **options):
        """Record what is asked for, and answer with a report of two phases."""
        asked.update(options, run=run)
        first = Phase("prediction, batch 1", "items", 10, None, "").to_json(Timing((2.0,)), 0)
        second = Phase("training", "target tokens", 8_000, None, "").to_json(Timing((2.0,)), 3 * 2**20)
        machine = {"processor": "fast", "threads": 2, "torch": "2", "device": "cpu"}
        return {"run_id": run.id, "layer": "phm n=2", "machine": machine, "phases": [first, second]}

    monkeypatch.setattr(bench, "bench_run", measure)
    result = phmrun("bench", "run", str(run_dir), "--only", "training", "--items", "128")
    assert result.code == 0
    lines = [line.split() for line in result.out.splitlines()]
    expected = ["training", "target", "tokens", "4,000.00", "3", "MiB"]
    assert expected in lines
    assert ["prediction,", "batch", "1", "items", "5.00", "0", "MiB"] in lines
    assert (asked["run"].path, asked["only"]) == (run_dir, "training")
    assert asked["amount"] == Amount(5, 8, 128)
    result = phmrun("bench", "run", str(run_dir), str(run_dir), "--json")
    assert [report["run_id"] for report in json.loads(result.out)["runs"]] == [run_dir.name] * 2
