"""A sweep that stops when it is decided: only open rows get seeds, a design stays, what was cut off goes on."""

import json

import pytest
import yaml

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.sequential import Terms, fix_terms, kept_terms, known, wanted

SWEEP = {"task": "toy", "grid": {"layer": ["dense", "phm", "rank"]}}


def scored(made, runs_dir, values):
    """Gives the first seeds of each layer these accuracies."""
    for cell in made.cells:
        seeds = values.get(cell.config.layer.structure, [])
        if cell.config.seed > len(seeds):
            continue
        run = Run.create(runs_dir, cell.run_id, "task: toy\n")
        run.update_metrics("test/accuracy", {"value": seeds[cell.config.seed - 1], "signature": "x"})
        run.set_state(State.DONE)
    return survey(made, runs_dir)


def left(statuses, terms):
    return sorted((status.cell.config.layer.structure, status.cell.config.seed) for status in wanted(statuses, terms))


def test_seeds_go_to_open_rows_only(planned, tmp_path):
    made, terms = planned(SWEEP, seeds=7), Terms(max_seeds=7, margin=0)
    statuses = scored(made, tmp_path / "runs", {"dense": [90.1, 90.3]})
    assert left(statuses, terms) == [("dense", 3), ("dense", 4), ("dense", 5)] + [
        (layer, seed) for layer in ("phm", "rank") for seed in range(1, 6)
    ]
    dense = [90.1, 90.3, 90.0, 90.2, 90.4]
    statuses = scored(
        made, tmp_path / "runs", {"dense": dense, "phm": [60.0, 61, 60.5, 59, 62], "rank": [90.0, 90.4, 90.2, 90.3, 90]}
    )
    far, near = known(statuses, terms)
    assert (str(far.decision.verdict), far.decision.seeds, far.open) == ("different", 5, False)
    assert (str(near.decision.verdict), near.open) == ("undecided", True)
    assert left(statuses, terms) == [(layer, seed) for layer in ("dense", "rank") for seed in (6, 7)]
    statuses = scored(
        made, tmp_path / "runs", {"dense": [*dense, 90, 90.2], "rank": [90.0, 90.4, 90.2, 90.3, 90, 90, 90.1]}
    )
    assert left(statuses, terms) == []
    assert not known(statuses, terms)[1].open


def test_a_design_stays(tmp_path):
    assert kept_terms(tmp_path) is None
    fix_terms(tmp_path, Terms(10))
    fix_terms(tmp_path, Terms(10))
    with pytest.raises(PhmrunError, match="fixed before its first look: --max-seeds 10"):
        fix_terms(tmp_path, Terms(12))


def test_from_the_command_line(phmrun, written, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PACE", "0.001")
    path = written(yaml.safe_dump(SWEEP))
    shown = phmrun("run", path, "--until-decided", "--max-seeds", "5", "--plan", "--json")
    assert [(row["row"], row["open"], row["seeds"]) for row in json.loads(shown.stdout)] == [
        ("phm", True, 0), ("rank", True, 0)
    ]  # fmt: skip
    stopped = phmrun("run", path, "--until-decided", "--max-seeds", "5", "--hours", "0")
    assert stopped.exit_code == ExitCode.OK, stopped.output
    done = phmrun("run", path, "--until-decided", "--max-seeds", "5", "--json", "--jobs", "2")
    assert done.exit_code == ExitCode.OK, done.output
    assert [(row["seeds"], row["open"]) for row in json.loads(done.stdout)] == [(5, False)] * 2
    other = phmrun("run", path, "--until-decided", "--max-seeds", "6")
    assert isinstance(other.exception, PhmrunError)
    assert "fixed before its first look" in other.exception.what
    alone = phmrun("run", written({"task": "toy", "grid": {"layer": ["phm"]}}, "one.yaml"), "--until-decided")
    assert "there is nothing to decide" in str(alone.exception)
