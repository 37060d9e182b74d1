"""The manifest of a run: every later reader notices a changed file, and no kill leaves a run that is refused."""

from unittest.mock import Mock

import pytest
from damage import flip

from phmrun.checksums import fault_in, write_checksums
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State, access
from phmrun.ledger.listing import recorded_run
from phmrun.ledger.manifest import MANIFEST

CONFIG = "task: toy\nseed: 1\n"
IDENTITY = '{"task":"toy"}'


@pytest.fixture
def running(tmp_path):
    from phmrun.config.identity import digits_of

    run = Run.create(tmp_path / "runs", f"toy-builtin-dense-1-{digits_of(IDENTITY)}", CONFIG)
    run.begin(IDENTITY)
    run.set_state(State.RUNNING)
    run.vocabulary.mkdir()
    (run.vocabulary / "words.txt").write_text("a\nb\n")
    run.write_parameters({"total": 7})
    run.fix(prepared(tmp_path / "prepared"))
    run.history.append({"step": 1, "train/loss": 2.0})
    run.checkpoints.mkdir()
    (run.checkpoints / "last.ckpt").write_bytes(bytes(1 << 21))
    run.add_metrics({"test/bleu": {"value": 49.96, "signature": "x"}})
    run.write(run.predictions / "test.txt", "a b\n")
    run.write_samples(["in"], [["a"]])
    return run


@pytest.fixture
def done(running):
    running.set_state(State.DONE, step=1)
    return running


def prepared(folder, text="1 2 3"):
    folder.mkdir(exist_ok=True)
    (folder / "tokens.bin").write_text(text)
    write_checksums(folder)
    return folder


COVERED = (
    *("config.yaml", "status.json", "metrics.json", "parameters.json", "history.jsonl"),
    *("vocabulary/words.txt", "checkpoints/last.ckpt", "predictions/test.txt", "predictions/samples.json"),
)


def test_a_whole_run_is_accepted_by_every_reader(done):
    done.manifest.check_all()
    assert sorted(done.manifest.names()) == sorted(COVERED)
    assert done.metrics()["test/bleu"]["value"] == 49.96
    assert recorded_run(done.path).damage is None


@pytest.mark.parametrize("name", COVERED)
def test_a_changed_file_is_named(done, name):
    flip(done.path / name, 3)
    with pytest.raises(PhmrunError, match="chain is broken at ") as caught:
        done.manifest.check_all()
    assert name in caught.value.what
    assert caught.value.code is ExitCode.DATA
    (done.path / name).unlink()
    with pytest.raises(PhmrunError, match="the file is missing"):
        done.manifest.check_all()


@pytest.mark.parametrize("name", ["status.json", "metrics.json"])
def test_a_listing_calls_a_changed_run_damaged_and_a_table_refuses_it(done, name):
    text = (done.path / name).read_text()
    (done.path / name).write_text(text.replace("49.96", "59.96").replace('"step": 1', '"step": 9'))
    summary = recorded_run(done.path)
    assert summary.state == "damaged"
    with pytest.raises(PhmrunError, match=name):
        summary.require_unbroken()


@pytest.mark.parametrize("place", range(0, 400, 13))
def test_a_flipped_bit_of_the_manifest_is_noticed_or_changes_nothing(done, place):
    path = done.path / MANIFEST
    before = done.manifest.read()
    flip(path, place)
    try:
        after = done.manifest.read()
    except PhmrunError as error:
        after = before if MANIFEST in error.what else None
    assert after == before


def kill_at_writing(monkeypatch, change):
    """Make a change whose first file is not written."""
    with monkeypatch.context() as patch:
        patch.setattr(access, "write_text", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            change()


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.add_metrics({"test/bleu": 1.0}),
        lambda run: run.write(run.predictions / "new.txt", "x"),
        lambda run: run.set_state(State.RUNNING),
        lambda run: run.write_config(CONFIG + "# moved\n"),
        lambda run: run.write_parameters({"total": 9}),
    ],
)
def test_a_kill_between_manifest_and_file_leaves_a_whole_run(done, monkeypatch, change):
    kill_at_writing(monkeypatch, lambda: change(done))
    again = Run(done.path)
    again.manifest.check_all()
    assert again.metrics()["test/bleu"]["value"] == 49.96
    change(again)
    again.manifest.check_all()


def test_a_kill_while_a_run_ends_leaves_one_that_goes_on(running, monkeypatch):
    kill_at_writing(monkeypatch, lambda: running.set_state(State.DONE))
    assert running.status.state is State.INTERRUPTED  # its process died
    running.begin(IDENTITY)
    running.set_state(State.RUNNING)
    running.history.append({"step": 2})
    (running.checkpoints / "last.ckpt").write_bytes(b"other")
    running.manifest.check_all()


def test_a_run_is_refused_under_another_id(done):
    moved = done.path.with_name("toy-builtin-dense-1-0123456789ab")
    done.path.rename(moved)
    with pytest.raises(PhmrunError, match="run id"):
        Run(moved).manifest.check_identity()
    named = moved.with_name("my best run")
    moved.rename(named)
    Run(named).manifest.check_all()


def test_a_damaged_interrupted_run_does_not_go_on(running):
    running.set_state(State.INTERRUPTED)
    flip(running.checkpoints / "last.ckpt", 3)
    with pytest.raises(PhmrunError, match=r"last\.ckpt"):
        running.begin(IDENTITY)


@pytest.mark.parametrize("name", ["parameters.json", "checkpoints/last.ckpt", "vocabulary/words.txt"])
def test_a_file_larger_than_its_disk_is_refused_without_its_checksum(done, name):
    write_checksums(done.path)
    with (done.path / name).open("ab") as file:
        file.truncate(1 << 42)
    with pytest.raises(PhmrunError, match=f"broken at {name}: the file cannot be read: larger than"):
        done.manifest.check(done.path / name)
    assert f"{name} cannot be read: larger than" in (fault_in(done.path) or "")
