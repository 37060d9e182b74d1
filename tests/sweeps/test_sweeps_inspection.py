"""The look at real networks: counts, names as `phmrun train` gives them, and thousands of cells in little memory."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from phmrun.config import load_run_config, to_yaml
from phmrun.engine.counting import count_parameters
from phmrun.engine.dry_run import dry_run
from phmrun.layers import options_of
from phmrun.sweeps import load_sweep, plan
from phmrun.sweeps.inspection import inspector

BIG = """
task: nmt
grid:
  layer: [dense, {structure: phm, n: 2}, {structure: phm, n: 4}, {structure: phm, n: 8}, {structure: phm, n: 16}]
  model.width: [16, 32, 64, 128, 256]
  model.encoder_layers: [1, 2]
  training.optimizer.lr: [0.001, 0.002, 0.003, 0.004, 0.005]
  training.clip: [1, 2]
seeds: 2
"""
MEASURED = """
import json, re, sys
from pathlib import Path
from phmrun.layers import options_of
from phmrun.sweeps import load_sweep, plan
from phmrun.sweeps.inspection import inspector
made = plan(load_sweep(sys.argv[1]), inspector({}), options_of)
networks = {json.dumps([c.config.layer.structure, c.config.layer.options, c.config.model.width,
                        c.config.model.encoder_layers]) for c in made.cells}
# Not what getrusage says, which begins with the size of the process that this one was forked from.
megabytes = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps({"runs": len(made.runs), "networks": len(networks), "megabytes": megabytes}))
"""


def test_names_and_counts_are_those_of_train(nmt, tmp_path):
    created = plan(load_sweep(str(nmt)), inspector({}), options_of)
    assert len(created.runs) == 4
    assert "n = 3 does not divide" in str(created.cells[-1].fault)
    for cell in created.runs.values():
        handed = tmp_path / "config.yaml"
        handed.write_text(to_yaml(cell.config, cell.origin))
        config = load_run_config(handed, options_of=options_of)
        dry = dry_run(config)
        assert (dry.run_id, dry.parameters["total"]) == (cell.run_id, cell.parameters)
        assert cell.exact
        assert count_parameters(config)["total"] > cell.parameters  # fewer words are there than are asked for


def test_counts_of_large_data_are_marked(nmt, monkeypatch, tmp_path):
    from phmrun.sweeps import inspection
    from phmrun.sweeps.cell_status import look

    monkeypatch.setattr(inspection, "SMALL", 10)
    cell = plan(load_sweep(str(nmt)), inspector({}), options_of).cells[0]
    assert count_parameters(cell.config)["total"] == cell.parameters
    assert not cell.exact
    assert look(cell, tmp_path / "runs").size == f"≤ {cell.parameters:,}"


def test_what_is_the_same_is_looked_at_once(nmt, monkeypatch):
    from phmrun.sweeps import inspection

    built, read = [], []
    monkeypatch.setattr(inspection, "_COUNTS", {})
    monkeypatch.setattr(inspection, "count_parameters", lambda config, sizes: built.append(config) or {"total": 1})
    monkeypatch.setattr(inspection, "_learnt_sizes", lambda data: (160, 160))
    data = SimpleNamespace(fingerprints=lambda: {"text": "0123"}, require=lambda *splits: None)
    monkeypatch.setattr(inspection, "build_data", lambda config: read.append(config) or data)
    nmt.write_text(nmt.read_text().replace("grid: {", "grid: {training.clip: [1, 2], "))
    created = plan(load_sweep(str(nmt)), inspector({}), options_of)
    assert len(created.cells) == 12
    assert (len(built), len(read)) == (3, 1)


def test_the_sources_of_settings_do_not_make_data_other_data(monkeypatch):
    """Rows of a paper's table differ in the provenance of their structure; the treebank is read once for each share."""
    from phmrun.sweeps import inspection

    read = []
    data = SimpleNamespace(fingerprints=lambda: {"text": "0123"}, require=lambda *splits: None)
    monkeypatch.setattr(inspection, "_learnt_sizes", lambda data: None)
    monkeypatch.setattr(inspection, "build_data", lambda config: read.append(config.data.train_fraction) or data)
    plan(load_sweep("configs/papers/matsuno/table2.yaml"), inspector({}), options_of)
    assert sorted(read) == ["1", "1/2", "1/4", "3/4"]


def test_missing_files_block_their_cells(nmt):
    nmt.write_text(nmt.read_text().replace("corpus/,", "nowhere/,"))
    cells = plan(load_sweep(str(nmt)), inspector({}), options_of).cells
    assert [cell.blocked for cell in cells] == [True] * 4 + [False] * 2


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the system does not tell a process's peak memory")
def test_a_thousand_cells(tmp_path):
    path = tmp_path / "big.yaml"
    path.write_text(BIG)
    done = subprocess.run([sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert (facts["runs"], facts["networks"]) == (1_000, 50)
    assert facts["megabytes"] < 600
