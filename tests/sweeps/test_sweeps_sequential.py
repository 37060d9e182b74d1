"""A sweep that stops when it is decided: only open rows get seeds, a design stays, what was cut off goes on."""

import json
from dataclasses import replace

import pytest
import yaml

from phmrun.cli.sweep_decision import _cells_of
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State
from phmrun.results.layout import lay_out, plain_rows
from phmrun.sweeps.cell_status import CellState, CellStatus, survey
from phmrun.sweeps.results import results_of
from phmrun.sweeps.sequential import (
    Terms,
    families,
    family_sizes,
    fix_terms,
    kept_terms,
    known,
    replayed,
    terms_of,
    wanted,
    without_spared,
    write_design,
)

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
    created, terms = planned(SWEEP, seeds=7), Terms(max_seeds=7, margin=0)
    statuses = scored(created, tmp_path / "runs", {"dense": [90.1, 90.3]})
    assert left(statuses, terms) == [("dense", 3), ("dense", 4), ("dense", 5)] + [
        (layer, seed) for layer in ("phm", "rank") for seed in range(1, 6)
    ]
    dense = [90.1, 90.3, 90.0, 90.2, 90.4]
    statuses = scored(
        created,
        tmp_path / "runs",
        {"dense": dense, "phm": [60.0, 61, 60.5, 59, 62], "rank": [90.0, 90.4, 90.2, 90.3, 90]},
    )
    far, near = known(statuses, terms)
    assert (str(far.judgement.verdict), far.looked_at, far.open) == ("different", 5, False)
    assert (str(near.judgement.verdict), near.open) == ("undecided", True)
    assert left(statuses, terms) == [(layer, seed) for layer in ("dense", "rank") for seed in (6, 7)]
    statuses = scored(
        created, tmp_path / "runs", {"dense": [*dense, 90, 90.2], "rank": [90.0, 90.4, 90.2, 90.3, 90, 90, 90.1]}
    )
    assert left(statuses, terms) == []
    assert not known(statuses, terms)[1].open


def test_rows_of_one_name_stay_two(planned, tmp_path):
    first, two, *_ = survey(planned(SWEEP, seeds=1), tmp_path)
    places = [{"encoder.dropout": "0.1", "decoder.dropout": ""}, {"encoder.dropout": "", "decoder.dropout": "0.1"}]
    statuses = [
        replace(item, cell=replace(item.cell, at={**place, "seed": 1}))
        for item, place in zip((first, two), places, strict=True)
    ]
    (family,) = families(statuses)
    assert family.baseline
    assert [row.label for row in (family.baseline, *family.rows)] == ["dropout 0.1"] * 2


NOISE = [0.1, 0.3, -0.2, 0.2, -0.1]


def finished(made, runs_dir, score, mean):
    """Ends the runs of a plan with the score of their cells, ``mean`` of the configuration, with noise by seed."""
    for cell in made.cells:
        run = Run.create(runs_dir, cell.run_id, f"task: {cell.config.task}\n")
        value = mean(cell.config) + NOISE[cell.config.seed - 1]
        run.update_metrics(score(cell.config), {"value": value, "signature": "x"})
        run.set_state(State.DONE)
    return survey(made, runs_dir)


def test_each_task_is_judged_by_its_own_score(planned, tmp_path):
    created = planned({"tasks": {"toy": {}, "other": {}}, "grid": {"layer": ["dense", "phm"]}}, seeds=5)
    statuses = finished(
        created,
        tmp_path / "runs",
        lambda config: "test/accuracy" if config.task == "toy" else "test/perplexity",
        lambda config: 150.0 if config.layer.structure == "phm" else 100.0,
    )
    judged = {row.family.split()[0]: row for row in known(statuses, Terms(5))}
    assert {task: (row.score, row.judgement.better) for task, row in judged.items()} == {
        "toy": ("test/accuracy", True), "other": ("test/perplexity", False)
    }  # fmt: skip


def test_rows_are_compared_with_dense_ones_of_their_length(planned, tmp_path):
    grid = {"training.max_steps": [500, 1000], "layer": ["dense", "phm"]}
    created = planned({"task": "toy", "grid": grid}, seeds=5)
    statuses = finished(
        created, tmp_path / "runs", lambda _: "test/accuracy", lambda config: 50 + config.training.max_steps / 100
    )
    judged = known(statuses, Terms(5, margin=0))
    assert [(row.family.endswith(steps), row.comparison.rows) for row, steps in zip(
        judged, ("500 steps", "1,000 steps"), strict=True
    )] == [(True, 1)] * 2  # fmt: skip
    assert [row.judgement.difference.value for row in judged] == pytest.approx([0, 0])


def test_the_level_is_shared_with_rows_that_are_not_selected(planned, tmp_path):
    statuses = scored(
        planned(SWEEP, seeds=5),
        tmp_path / "runs",
        {layer: [mean + noise for noise in NOISE] for layer, mean in (("dense", 90.0), ("phm", 89.5), ("rank", 89.5))},
    )
    terms = Terms(5, margin=0)
    selected = [status for status in statuses if status.cell.config.layer.structure != "rank"]
    whole = known(statuses, terms)[0]
    (alone,), (shared,) = known(selected, terms), known(selected, terms, family_sizes(statuses))
    assert shared.judgement == whole.judgement
    assert shared.judgement.difference.p > alone.judgement.difference.p


def test_replicates_within_a_budget_are_those_wanted(planned):
    plan = planned({"task": "toy", "grid": {"layer": ["dense", "phm"]}}, seeds=4)
    timed = [
        replace(cell, at={**cell.at, "training.max_steps": 17}, budget="600 s of training")
        for cell in plan.cells
        if cell.config.seed in (2, 3)
    ]
    kept = _cells_of(plan, [CellStatus(cell, CellState.MISSING) for cell in timed])
    assert [(cell.config.layer.structure, cell.config.seed) for cell in kept.cells] == [
        (layer, seed) for layer in ("dense", "phm") for seed in (1, 2, 3)
    ]


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


def test_replicates_search_look_by_look(phmrun, written, tmp_path, monkeypatch):
    """The pilot is not counted; only open rows train further seeds, each with three trials."""
    monkeypatch.setenv("FAKE_PACE", "0.0005")
    content = {"task": "toy", "grid": {"layer": ["dense", "phm"]}, "replicates": True}
    content |= {"tune": {"training.optimizer.lr": [0.0001, 0.001, 0.01]}}
    content |= {"base": {"training": {"schedule": {"name": "constant"}, "optimizer": {"lr": 1.0}}}}
    path = written(yaml.safe_dump(content))
    ended = phmrun("run", path, "--until-decided", "--max-seeds", "5", "--json", "--jobs", "2")
    assert ended.exit_code == ExitCode.OK, ended.output
    (row,) = json.loads(ended.stdout)
    assert (row["row"], row["seeds"], row["open"], row["looked_at"]) == ("phm", 5, False, 5)
    assert "after choosing among 3 values by validation within each seed" in row["estimand"]
    again = phmrun("run", path, "--until-decided", "--max-seeds", "5", "--json")
    assert json.loads(again.stdout) == [row]


def test_a_time_that_is_over_ends_runs_cleanly(phmrun, written, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PACE", "30")
    path = written(yaml.safe_dump({"task": "toy", "grid": {"layer": ["dense", "phm"]}}))
    stopped = phmrun("run", path, "--hours", "0.0003", "--jobs", "2")  # a second
    assert stopped.exit_code == ExitCode.OK, stopped.output
    assert "failed" not in stopped.output


def test_a_table_replays_the_looks(planned, tmp_path):
    created, terms = planned(SWEEP, seeds=7), Terms(max_seeds=7, margin=0)
    dense, near = [90.1, 90.3, 90.0, 90.2, 90.4, 90.9], [90.0, 90.4, 90.2, 90.3, 90]
    far = [60.0, 61, 60.5, 59, 62]
    statuses = without_spared(scored(created, tmp_path / "runs", {"dense": dense, "phm": far, "rank": near}), terms)
    table = results_of(created, statuses).pivot()
    looked = replayed(table, statuses, terms)
    assert [(place, str(item.verdict), item.open) for place, item in looked.items()] == [
        ((1, 0), "different", False), ((2, 0), "undecided", True)
    ]  # fmt: skip
    assert looked[1, 0].judgement.difference.value == pytest.approx(60.5 - 90.2)  # the first five seeds of both
    laid = lay_out(table, "mean", looked, paper=False)
    assert [row[-1] for row in laid.rows] == ["6 of 7", "5", "5 of 7"]
    assert [row[2] for row in laid.rows] == ["90.32", "60.50*", "90.18"]
    notes = "\n".join(laid.notes)
    assert "simultaneous over 2 rows and looks at 5, 7 seeds, level 0.05" in notes
    assert [(row[0], row[1], row[-5]) for row in laid.verdict_rows] == [
        ("phm", "-29.70", "different, worse"), ("rank", "-0.02", "open")
    ]  # fmt: skip
    cell = plain_rows(table, looked)[1]
    assert (cell["verdict"], cell["looks"]["rows"], cell["looks"]["looked_at"]) == ("different", 2, 5)
    fix_terms(tmp_path, terms)
    assert terms_of(tmp_path, None, None, None) == terms
    assert terms_of(tmp_path / "other", 9, None, None) == Terms(9)
    with pytest.raises(PhmrunError, match="fixed before its first look"):
        terms_of(tmp_path, 9, None, None)
    with pytest.raises(PhmrunError, match="chosen by --until-decided"):
        terms_of(tmp_path, None, None, 3)


def test_a_design_travels_beside_the_sweep_file(planned, tmp_path):
    created, terms = planned(SWEEP, seeds=7), Terms(max_seeds=7, margin=0.25)
    statuses = scored(created, tmp_path / "runs", {"dense": [90.0]})
    path = write_design(tmp_path, terms, statuses)
    assert json.loads(path.read_text()) == {
        "max_seeds": 7, "margin": 0.25, "level": 0.05, "looks": [5, 7], "rows": 2
    }  # fmt: skip
    file = str(tmp_path / "sweep.yaml")
    assert terms_of(tmp_path / "none", None, None, None, file) == terms
    with pytest.raises(PhmrunError, match=r"fixed before its first look: --max-seeds 7 --margin 0\.25"):
        fix_terms(tmp_path / "none", Terms(10), file)
    path.write_text("{}")
    with pytest.raises(PhmrunError, match="cannot be read"):
        kept_terms(tmp_path / "none", file)
