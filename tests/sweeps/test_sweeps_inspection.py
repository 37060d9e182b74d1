"""The look at real networks: counts, names as `phmrun train` gives them, and thousands of cells in little memory."""

from types import SimpleNamespace

from toy_planner import runs_of

from phmrun.config import load_run_config, to_yaml
from phmrun.engine.counting import count_parameters
from phmrun.engine.experiment import dry_run
from phmrun.errors import ExitCode
from phmrun.layers import options_of
from phmrun.sweeps.file import load_sweep
from phmrun.sweeps.inspection import inspector
from phmrun.sweeps.plan import plan


def test_names_and_counts_are_those_of_train(nmt, tmp_path):
    created = plan(load_sweep(str(nmt)), inspector({}), options_of)
    assert len(runs_of(created)) == 4
    assert "n = 3 does not divide" in str(created.cells[-1].fault)
    for cell in runs_of(created).values():
        handed = tmp_path / "config.yaml"
        handed.write_text(to_yaml(cell.config, cell.origin))
        config = load_run_config(handed, options_of=options_of)
        dry = dry_run(config)
        assert (dry.run_id, dry.parameters["total"]) == (cell.run_id, cell.parameters)
        assert cell.exact
        assert count_parameters(config)["total"] > cell.parameters  # fewer words are there than are asked for


def test_what_is_the_same_is_looked_at_once(nmt, monkeypatch):
    from phmrun.sweeps import inspection

    built, read = [], []
    monkeypatch.setattr(inspection, "_COUNTS", {})
    monkeypatch.setattr(inspection, "count_parameters", lambda config, sizes: built.append(config) or {"total": 1})
    data = SimpleNamespace(fingerprints=lambda: {"text": "0123"}, require=lambda *splits: None)
    data.sources, data.vocabulary = lambda split: [], SimpleNamespace(sizes=(160, 160))
    monkeypatch.setattr(inspection, "build_data", lambda config: read.append(config) or data)
    nmt.write_text(nmt.read_text().replace("grid: {", "grid: {training.clip: [1, 2], "))
    created = plan(load_sweep(str(nmt)), inspector({}), options_of)
    assert len(created.cells) == 12
    assert (len(built), len(read)) == (3, 1)


def test_missing_files_block_their_cells(nmt):
    nmt.write_text(nmt.read_text().replace("corpus/,", "nowhere/,"))
    cells = plan(load_sweep(str(nmt)), inspector({}), options_of).cells
    assert [bool(cell.fault and cell.fault.code == ExitCode.DATA) for cell in cells] == [True] * 4 + [False] * 2
