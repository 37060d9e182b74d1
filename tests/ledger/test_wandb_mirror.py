"""The W&B mirror, read back from the files that it writes."""

import json
import logging
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phmrun.errors import ExitCode
from phmrun.ledger import Run, State
from phmrun.ledger.wandb_mirror import Mirror, sync, wandb_mode

pytest.importorskip("wandb")

CONFIG = "task: nmt\nseed: 3\ndata: {name: multi30k}\nlayer: {structure: phm, n: 4}\nhardware: {devices: auto}\n"
CONFIG += "logging: {project: p}\n"
LABELS = {"task": "nmt", "data": {"name": "multi30k"}, "logging": {"project": "p"}}
ID = "nmt-multi30k-phm-3-0123456789ab"
BLOCK = 32768


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("WANDB_"):
            monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "runs", ID, CONFIG)


def records(file: Path) -> Iterator[Any]:
    """The records of a .wandb file: LevelDB's log format after a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content = file.read_bytes()
    assert content[:4] == b":W&B"
    position, parts = 7, b""
    while position + 7 <= len(content):
        left = BLOCK - position % BLOCK
        if left < 7:
            position += left
            continue
        length = int.from_bytes(content[position + 4 : position + 6], "little")
        kind = content[position + 6]
        if kind == 0:
            break
        parts += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            yield Record.FromString(parts)
            parts = b""


def contents(directory: Path) -> dict[str, Any]:
    """Content of a W&B run directory: record, config, rows and summary of the run."""
    (file,) = directory.glob("*.wandb")
    actual: dict[str, Any] = {"config": {}, "rows": [], "summary": {}, "run": None, "metrics": {}}
    for record in records(file):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            actual["run"] = record.run
            actual["config"] |= loaded(record.run.config.update)
        elif kind == "history":
            actual["rows"].append(loaded(record.history.item))
        elif kind == "summary":
            actual["summary"] |= loaded(record.summary.update)
        elif kind == "metric":
            actual["metrics"][record.metric.name or record.metric.glob_name] = record.metric.step_metric
    return actual


def loaded(items: Any) -> dict[str, Any]:
    """Keys and values; a nested key is joined by dots."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def column(found: dict[str, Any], name: str) -> list[Any]:
    return [row[name] for row in found["rows"] if name in row]


def everything_below(path: Path) -> set[Path]:
    return set(path.rglob("*"))


def test_a_run_is_mirrored_offline_unless_something_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert (wandb_mode(), wandb_mode("disabled"), wandb_mode("online")) == ("offline", "disabled", "online")


def test_disabled_leaves_nothing_and_imports_nothing(run: Run, tmp_path: Path) -> None:
    before = everything_below(tmp_path)
    script = (
        "import sys; from pathlib import Path; from phmrun.ledger import Run\n"
        "from phmrun.ledger.wandb_mirror import Mirror\n"
        "mirror = Mirror(Run(Path(sys.argv[1])), config={'a': 1})\n"
        "mirror.log({'step': 1}); mirror.samples({'columns': ['a'], 'rows': [['b']]}); mirror.summary({'x': 1})\n"
        "mirror.finish()\n"
        "print(mirror.directory, mirror.url, 'wandb' in sys.modules)"
    )
    environment = {**os.environ, "WANDB_MODE": "disabled"}
    answer = subprocess.run(
        [sys.executable, "-c", script, str(run.path)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout == "None None False\n"
    assert everything_below(tmp_path) == before


def test_offline_holds_config_rows_table_and_summary(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mirror = Mirror(run, "offline", config={**LABELS, "layer": {"structure": "phm", "n": 4}, "rate": math.inf})
    mirror.log({"step": 10, "time": 1.5, "train/loss": 3.25})
    mirror.log({"step": 20, "time": 2.5, "train/loss": math.nan, "val/bleu": None})
    mirror.samples({"columns": ["source", "translation"], "rows": [["a dog", "ein Hund"]]})
    mirror.summary({"model": "Transformer(…)", "parameters/total": 1000})
    directory = mirror.directory
    mirror.finish()
    assert directory is not None
    assert directory.parent == run.wandb_dir
    actual = contents(directory)
    assert (actual["run"].run_id, actual["run"].project, actual["run"].run_group) == (ID, "p", "nmt-multi30k")
    assert (actual["run"].job_type, sorted(actual["run"].tags)) == ("nmt", ["n=4", "phm"])
    assert actual["config"]["layer"] == {"structure": "phm", "n": 4}
    assert actual["metrics"]["*"] == "trainer/global_step"
    assert column(actual, "trainer/global_step") == [10, 20, 20]
    assert column(actual, "trainer/seconds") == [1.5, 2.5]
    assert column(actual, "train/loss")[0] == 3.25
    assert column(actual, "val/bleu") == []
    assert column(actual, "samples._type") == ["table-file"]
    (table,) = directory.glob("files/media/table/*.table.json")
    assert json.loads(table.read_text())["data"] == [["a dog", "ein Hund"]]
    assert actual["summary"]["parameters/total"] == 1000
    assert actual["summary"]["model"] == "Transformer(…)"
    assert capfd.readouterr() == ("", "")
    outside = {path for path in everything_below(tmp_path) if run.path not in path.parents}
    assert outside == {tmp_path / "home", tmp_path / "runs", run.path}
    assert not any(name.startswith("WANDB_") for name in os.environ)


def test_failure_in_the_middle_is_said_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    mirror = Mirror(run, "offline")
    mirror._segment.finish()
    with caplog.at_level(logging.WARNING):
        mirror.log({"step": 1})
        mirror.log({"step": 2})
        mirror.summary({"x": 1})
    mirror.finish()
    assert [record.message.split(":")[0] for record in caplog.records if record.name.startswith("phmrun")] == [
        "the W&B mirror stopped, training continues"
    ]
    assert not any(name.startswith("WANDB_") for name in os.environ)


def test_online_without_a_key_is_one_clear_error(run: Run) -> None:
    script = (
        "import sys; from pathlib import Path; from phmrun.errors import PhmrunError; from phmrun.ledger import Run\n"
        "from phmrun.ledger.wandb_mirror import Mirror\n"
        "try: Mirror(Run(Path(sys.argv[1])), 'online')\n"
        "except PhmrunError as error: print(int(error.code), error)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, str(run.path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.startswith(f"{int(ExitCode.USAGE)} W&B cannot be used online: No API key")
    assert "wandb login" in answer.stdout
    assert "--wandb offline" in answer.stdout
    assert answer.stderr == ""


@pytest.fixture
def resumed(run: Run) -> Run:
    """A run that was trained in two segments, the second of which went back to step 20."""
    with run.lock():
        for steps in ((10, 20, 30), (30, 40)):
            cut = run.history.cut(20)
            assert cut in (0, 1)
            mirror = Mirror(run, "offline", config={**LABELS, "seed": 3})
            for step in steps:
                row = {"step": step, "time": step / 10, "train/loss": 1 / step}
                run.history.append(row)
                mirror.log(row)
            mirror.finish()
        run.add_metrics({"test/bleu": {"value": 31.5, "signature": "nrefs:1"}})
        run.write_parameters({"total": 1000, "blocks": {"dense": 4}})
        run.write_samples(("source", "translation"), [("a dog", "ein Hund"), ("a cat", "eine Katze")])
        run.set_state(State.DONE, step=40)
    return run


def test_sync_replays_all_segments_as_one_run(resumed: Run) -> None:
    before = everything_below(resumed.wandb_dir)
    synced = sync(resumed, "offline")
    assert (synced["rows"], synced["url"]) == (4, None)
    actual = contents(synced["wandb_dir"])
    assert (actual["run"].run_id, actual["run"].project, actual["run"].run_group) == (ID, "p", "nmt-multi30k")
    assert actual["config"]["layer"] == {"structure": "phm", "n": 4}
    assert column(actual, "train/loss") == [1 / step for step in (10, 20, 30, 40)]
    assert column(actual, "trainer/global_step") == [10, 20, 30, 40, 40]
    assert column(actual, "samples.nrows") == [2]
    assert actual["summary"]["test/bleu"] == 31.5
    assert actual["summary"]["test/bleu/signature"] == "nrefs:1"
    assert actual["summary"]["parameters/blocks/dense"] == 4
    assert before <= everything_below(resumed.wandb_dir)


def test_sync_without_a_mirror_has_the_labels_of_the_config(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "runs", ID, CONFIG)
    actual = contents(sync(run, "offline")["wandb_dir"])
    assert (actual["run"].project, actual["run"].run_group, actual["run"].job_type) == ("p", "nmt-multi30k", "nmt")
    assert sorted(actual["run"].tags) == ["n=4", "phm"]


def test_an_error_closes_the_mirror_and_restores_the_environment(run: Run) -> None:
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), Mirror(run, config={"layer": {"structure": "phm", "keys": "a," * 40}}):
        raise ZeroDivisionError
    assert dict(os.environ) == before
