"""Runs whose data are not on this machine any more: a sweep's table finds them by their settings."""

import pytest
import toy_experiment

from phmrun.config import to_yaml
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.sweeps.cell_status import CellState
from phmrun.sweeps.ledger import survey_without_data
from phmrun.sweeps.results import table_of_sweep

SWEEP = {"task": "toy", "base": {"data": {"name": "lost"}}, "grid": {"layer": ["dense", "phm"]}, "seeds": 2}


def done(runs_dir, cell, name):
    run = Run.create(runs_dir, name, to_yaml(cell.config))
    run.update_metrics("test/accuracy", {"value": 80.0 + cell.config.seed, "signature": "x"})
    run.set_state(State.DONE)


def test_a_table_needs_no_data(planned, tmp_path):
    made = planned(SWEEP)
    assert all(cell.run_id is None for cell in made.cells)
    for number, cell in enumerate(made.cells[:2]):
        done(tmp_path / "runs", cell, f"toy-lost-dense-{cell.config.seed}-{number:012x}")
    stands = survey_without_data(made, tmp_path / "runs", toy_experiment.options_of)
    assert [stand.standing for stand in stands] == [CellState.DONE] * 2 + [CellState.BLOCKED] * 2
    table = table_of_sweep(made, stands)
    assert [figures[0].numbers[0].values for figures in table.figures] == [(81.0, 82.0), ()]


def test_two_runs_of_the_same_settings_on_other_data_are_not_guessed(planned, tmp_path):
    made = planned(SWEEP)
    for name in ("toy-lost-dense-1-00000000000a", "toy-lost-dense-1-00000000000b"):
        done(tmp_path / "runs", made.cells[0], name)
    with pytest.raises(PhmrunError, match="2 runs have the settings of layer dense · seed 1, on other data each"):
        survey_without_data(made, tmp_path / "runs", toy_experiment.options_of)
