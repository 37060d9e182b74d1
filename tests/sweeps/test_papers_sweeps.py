"""Every paper's table that can be trained, and every small twin: planned with real networks, so that none can rot."""

import os
from functools import cache

import pytest
from toy_planner import runs_of

from phmrun.config import packaged_names
from phmrun.datasets import CATALOGUE
from phmrun.errors import ExitCode
from phmrun.layers import options_of
from phmrun.papers.table import column_groups, is_trained, load_table, table_names
from phmrun.sweeps import inspection
from phmrun.sweeps.file import load_sweep
from phmrun.sweeps.plan import plan

pytestmark = pytest.mark.long

TABLES = [name for name in table_names() if (table := load_table(name)).task and column_groups(table)]
TWINS = [name for name in packaged_names() if name.startswith("configs/papers/") and name.endswith("-small.yaml")]


@pytest.fixture(scope="module")
def look():
    """Shared cache for all sweeps, since many have networks in common; no vocabulary is learnt of the data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "SMALL", -1)
        yield inspection.inspector({})


@pytest.fixture(scope="module")
def planned(look):
    return cache(lambda name: plan(load_sweep(name), look, options_of))


@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_a_table_are_experiments(name, planned):
    table, created = load_table(name), planned(name)
    columns = len(set(column_groups(table).values()))
    assert len(created.cells) == columns * sum(is_trained(row) for row in table.rows)
    for cell in created.cells:
        assert cell.fault is None or cell.fault.code == ExitCode.DATA, f"{cell.label}: {cell.fault}"
        assert cell.config.data.name in CATALOGUE.names()  # the paper's data, never what a task takes unasked


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_is_its_table_in_reduced_settings(name, planned):
    created, whole = planned(name), planned(load_sweep(name).file.table)
    assert created.sweep.file.reduced
    assert load_sweep(name).file.table == name.replace("-small", "")
    assert created.cells
    assert {cell.at["row"] for cell in created.cells} <= {cell.at["row"] for cell in whole.cells}
    assert not runs_of(created).keys() & runs_of(whole).keys()
    for cell in created.cells:
        assert cell.fault is None or cell.fault.code == ExitCode.DATA, f"{cell.label}: {cell.fault}"
        assert cell.parameters is None or cell.parameters < 20_000_000
        training = cell.config.training
        assert (training.max_steps or 0) <= 4500
        assert training.max_epochs is None or training.max_epochs <= 15
    if "PHMRUN_DATA" in os.environ:
        assert not [cell.label for cell in created.cells if cell.fault and cell.fault.code == ExitCode.DATA]


def test_every_task_has_a_twin():
    tasks = {load_table(load_sweep(name).file.table).task for name in TWINS}
    assert tasks >= {"nmt", "style", "sva", "nli", "parse", "lm"}
