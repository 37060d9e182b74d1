"""Data that are not on this machine any more: a plan has the checksums that runs have on record."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tiny_experiments import write_corpus

from phmrun.cli.app import main
from phmrun.config import to_yaml
from phmrun.config.identity import canonical_identity
from phmrun.errors import ExitCode
from phmrun.ledger import Run, State
from phmrun.ledger.environment import DataRecord
from phmrun.sweeps import planning
from phmrun.sweeps.cell_status import CellState, survey
from phmrun.sweeps.results import results_of


def planned(path, runs_dir):
    return planning.planned(str(path), ledger=runs_dir)


def done(runs_dir, cell, marks):
    run = Run.create(runs_dir, cell.run_id, to_yaml(cell.config))
    run.write_parameters({"total": cell.parameters})
    run.write_data(DataRecord({}, dict(marks)))
    run.add_metrics({"test/bleu": {"value": 20.0 + cell.config.seed, "signature": "x"}})
    run.begin(canonical_identity(cell.config, marks))
    run.set_state(State.DONE)


def test_a_table_needs_no_data(nmt, tmp_path, capsys):
    before = planned(nmt, tmp_path / "runs")
    for cell in before.cells[:2]:
        done(tmp_path / "runs", cell, cell.marks)
    shutil.rmtree(tmp_path / "corpus")
    nmt.write_text(nmt.read_text().replace(f"{tmp_path}/", ""))
    created = planned(nmt, tmp_path / "runs")
    assert [cell.run_id for cell in created.cells[:4]] == [cell.run_id for cell in before.cells[:4]]
    actual = survey(created, tmp_path / "runs")
    assert [item.state for item in actual] == [CellState.DONE] * 2 + [CellState.MISSING] * 4
    assert [figures[0].values for figures in results_of(created, actual).pivot().figures] == [(21.0, 22.0), (), ()]
    assert all(cell.fault.code == ExitCode.DATA for cell in planned(nmt, tmp_path / "no runs").cells[:4])
    with pytest.raises(SystemExit):
        main(["sweep", str(nmt), "--plan", "--runs-dir", str(tmp_path / "runs")])
    assert "6 cells: 2 done · 2 blocked · 2 invalid" in capsys.readouterr().out


def test_a_plan_of_recorded_replicates_needs_no_data(tmp_path, monkeypatch, capsys):
    folder = Path(__file__).parents[2] / "results" / "adapters-scitail-classifier"
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path))
    for command in (["results", "restore", str(folder)], ["sweep", str(folder / "sweep.yaml"), "--plan"]):
        with suppress(SystemExit):
            main([*command, "--runs-dir", str(tmp_path / "runs")])
    assert "10 cells: 10 done" in capsys.readouterr().out


def test_a_row_with_another_file_takes_no_checksums_of_the_first(nmt, tmp_path):
    (cell, *_) = planned(nmt, tmp_path / "runs").cells
    done(tmp_path / "runs", cell, cell.marks)
    other = write_corpus(tmp_path / "other", seed=1)
    nmt.write_text(nmt.read_text().replace(str(tmp_path / "corpus"), str(other)))
    (moved, *_) = planned(nmt, tmp_path / "runs").cells
    assert (moved.run_id != cell.run_id, moved.marks) == (True, planned(nmt, tmp_path / "no runs").cells[0].marks)


def test_of_two_files_with_one_content_that_of_the_row_counts(nmt, tmp_path):
    text, corpus, other = nmt.read_text(), str(tmp_path / "corpus"), str(tmp_path / "other")
    shutil.copytree(corpus, other)
    (cell, *_) = planned(nmt, tmp_path / "runs").cells
    nmt.write_text(text.replace(corpus, other))
    (*_, last) = planned(nmt, tmp_path / "runs").cells[:4]
    for row in (cell, last):
        done(tmp_path / "runs", row, row.marks)
    shutil.rmtree(corpus)
    shutil.rmtree(other)
    for content in (text, text.replace(corpus, other)):
        nmt.write_text(content)
        assert planned(nmt, tmp_path / "runs").cells[0].run_id == cell.run_id
