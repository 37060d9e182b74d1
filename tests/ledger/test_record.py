"""A finished run as one small file, and the directory made again of it."""

import json
import math
from unittest.mock import Mock

import pytest

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.environment import DataRecord, Source, Split
from phmrun.ledger.listing import recorded_run
from phmrun.ledger.record import ITEMS, POINTS, WEIGHTS, record_of, recorded_runs, restore, thinned, write_record

NAME = "toy-lost-dense-1-0123456789ab"


@pytest.fixture
def run(tmp_path):
    """A finished run with everything that a record keeps."""
    created = Run.create(tmp_path / "runs", NAME, "task: toy\nseed: 1\nlayer: {structure: dense}  # from a file\n")
    created.write_parameters({"total": 12, "modules": [{"name": "a"}], "fingerprints": {"train": "0" * 64}})
    created.add_metrics({"test/accuracy": {"value": 81.5, "signature": "x", "ci": [80.0, 83.0]}})
    created.add_metrics({"train/loss": {"value": math.nan, "signature": "y"}})
    file = Source("/home/somebody/data/train.txt", "1" * 64, 10)
    created.write_data(DataRecord({"train": Split((file,)), "dev": Split((file,))}, {"train": "0" * 64}))
    with created.lock():
        created.history.append({"step": 1, "time": 0.123456789, "train/loss": 1.0})
    segment = {
        "host": "h",
        "command": ["phmrun", "/home/x"],
        "packages": {"torch": "2"},
        "cpu_seconds": 3.0,
    }
    (created.path / "environment.json").write_text(json.dumps({"segments": [segment]}))
    created.set_state(State.DONE, "the last step", step=4, seconds=2.0)
    return created


def test_a_run_comes_back(run, tmp_path):
    items = {"test/accuracy": {"items": 0}}
    path = write_record(record_of(run, items=items, weights={"last.ckpt": "2" * 64}), tmp_path / "results")
    assert path.name == f"{NAME}.json"
    (again,) = restore([path], tmp_path / "elsewhere")
    before, after = recorded_run(run.path), recorded_run(again.path)
    assert after.to_json() | {"run_dir": ""} == before.to_json() | {"run_dir": "", "host": None, "pid": None} | {
        "metrics": after.metrics()
    }
    assert math.isnan(after.metrics()["train/loss"]["value"])
    assert after.metrics()["test/accuracy"] == before.metrics()["test/accuracy"]
    assert again.parameters() == {"total": 12, "fingerprints": {"train": "0" * 64}}
    assert again.data().splits["dev"].files == (Source("train.txt", "1" * 64, 10),)
    assert [item["packages"] for item in again.environment()] == [{"torch": "2"}]
    assert again.history.read() == [{"step": 1, "time": 0.12346, "train/loss": 1.0}]
    assert json.loads((again.path / ITEMS).read_text()) == items
    assert json.loads((again.path / WEIGHTS).read_text()) == {"last.ckpt": "2" * 64}


def test_a_run_that_is_read_from_its_record_alone_equals_the_restored_one(run, tmp_path):
    path = write_record(record_of(run, items={"test/accuracy": {"items": 0}}, weights={}), tmp_path / "results")
    (alone,), (again,) = recorded_runs([path], tmp_path / "nowhere"), restore([path], tmp_path / "elsewhere")
    assert not alone.path.exists()
    again = recorded_run(again.path)
    for part in ("config_text", "settings", "status", "state", "damage", "network", "main_score"):
        assert getattr(alone, part) == getattr(again, part), part
    for read in ("parameters", "data", "environment", "bench", "samples", "identity", "rows", "fingerprints"):
        assert getattr(alone, read)() == getattr(again, read)(), read
    assert (alone.faults, alone.history.names()) == (again.faults, ["train/loss"])
    assert repr(alone.metrics()) == repr(again.metrics())
    alone.require_unbroken()
    other = write_record(record_of(run, items={}, weights={}) | {"identity": "{}"}, tmp_path / "results")
    with pytest.raises(PhmrunError, match="chain is broken at the run id"):
        recorded_runs([other], tmp_path)[0].require_unbroken()


def test_two_results_of_a_run_have_the_same_scores_or_neither_counts(run, tmp_path):
    first, second = (write_record(record_of(run, items={}, weights={}), tmp_path / name) for name in "ab")
    assert len(restore([first, second], tmp_path / "same")) == 1
    run.add_metrics({"test/accuracy": {"value": 81.6, "signature": "x", "ci": [80.0, 83.0]}})
    second = write_record(record_of(run, items={}, weights={}), tmp_path / "b")
    with pytest.raises(PhmrunError, match=f"two results of the run {NAME} have different scores") as caught:
        restore([first, second], tmp_path / "other")
    assert caught.value.where == f"{first} and {second}"
    assert not (tmp_path / "other").exists()


def test_nothing_of_the_machine_is_in_it_and_the_bytes_are_the_same_again(run, tmp_path):
    path = write_record(record_of(run, items={}, weights={}), tmp_path / "results")
    text = path.read_text()
    assert "home" not in text
    (again,) = restore([path], tmp_path / "elsewhere")
    assert write_record(record_of(again, items={}, weights={}), tmp_path / "results").read_text() == text


def test_paths_are_those_below_the_data_directory(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", "/home/ada/data")
    data = {
        "prefix": "/home/ada/secret project/de-en/",
        "train": ["/home/ada/data/own/a.txt", "relative/b.txt"],
        "vocabulary": {"path": "/home/ada/runs/x/vocabulary"},
    }
    run.write_config(json.dumps({"task": "toy", "data": data, "seed": 1}))
    run.set_state(State.DONE, "read /home/ada/data/own/a.txt", step=4, seconds=2.0)
    record = record_of(run, items={}, weights={})
    assert record["config"]["data"] == {
        "prefix": "de-en/", "train": ["own/a.txt", "relative/b.txt"], "vocabulary": {"path": "vocabulary"}
    }  # fmt: skip
    assert record["status"]["reason"] == "read $PHMRUN_DATA/own/a.txt"
    assert "ada" not in json.dumps(record)


def test_an_unfinished_run_has_no_result(run):
    run.set_state(State.INTERRUPTED)
    with pytest.raises(PhmrunError, match="no result yet"):
        record_of(run, items={}, weights={})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.update(format="other"), "its format is not"),
        (lambda record: record.pop("history"), "its format is not"),
        (lambda record: record.update(run="../../elsewhere"), "named for its run"),
        (lambda record: record.update(status={"state": "asleep"}), "the result is damaged"),
        (lambda record: record["data"].update(splits={"train": [7]}), "the result is damaged"),
    ],
)
def test_a_damaged_file_is_refused_and_nothing_is_made(run, tmp_path, change, message):
    path = write_record(record_of(run, items={}, weights={}), tmp_path / "results")
    record = json.loads(path.read_text())
    del record["sha256"]
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(PhmrunError, match=message) as caught:
        restore([path], tmp_path / "elsewhere")
    assert caught.value.code is ExitCode.DATA
    assert not (tmp_path / "elsewhere").exists()


def test_a_run_is_restored_whole_or_not_at_all(run, tmp_path, monkeypatch):
    path = write_record(record_of(run, items={}, weights={}), tmp_path / "results")
    monkeypatch.setattr("pathlib.Path.write_text", Mock(side_effect=[1, OSError(28, "disk full")]))
    with pytest.raises(OSError, match="disk full"):
        restore([path], tmp_path / "elsewhere")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_curves_are_thinned_evenly_and_all_validations_stay():
    rows = [{"step": step, "train/loss": float(step)} for step in range(1000)]
    rows += [{"step": step, "val/loss": 1 / 3, "val/accuracy": 0.5} for step in range(0, 1000, 10)]
    kept = thinned(sorted(rows, key=lambda row: row["step"]))
    assert len(kept) == POINTS + 100
    assert [row["step"] for row in kept if "train/loss" in row][:: POINTS - 1] == [0, 999]
    validations = [row for row in kept if "val/loss" in row]
    assert validations == [{"step": step, "val/loss": 0.33333, "val/accuracy": 0.5} for step in range(0, 1000, 10)]


def test_a_flipped_bit_of_a_result_is_refused_or_changes_nothing(run, tmp_path):
    path = write_record(record_of(run, items={}, weights={}), tmp_path / "results")
    content = path.read_bytes()
    whole = json.loads(content)
    refused = 0
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            restore([path], tmp_path / f"runs-{place}")
        except PhmrunError as error:
            refused += error.code is ExitCode.DATA
        else:
            assert {key: value for key, value in json.loads(damaged).items() if key in whole} in (
                whole,
                {key: value for key, value in whole.items() if key != "sha256"},
            )
    assert refused > 0.9 * len(range(0, len(content), 7))
