"""The run's page and the description behind it."""

from itertools import pairwise
from pathlib import Path

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.card import card, describe, duration, number, write_card

ID = "nmt-multi30k-phm-3-0123456789ab"
CONFIG = "task: nmt\nseed: 3\ndata: {name: multi30k}\nlayer: {structure: phm, n: 4}\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run.create(tmp_path / "runs", ID, CONFIG)
    with run.lock():
        run.set_state(State.RUNNING)
        run.history.append({"step": 1200, "train/loss": 2.5})
        run.update_metrics("test/bleu", {"value": 31.456, "signature": "nrefs:1|tok:13a", "interval": {"low": 30.0}})
        run.update_metrics("val/loss", 1.5)
        run.write_parameters({"total": 1234567, "blocks": {"weights": 1000}})
        run.write_samples(("source", "translation"), [("a | b", "ein\nHund")])
        run.set_state(State.DONE, step=1200, seconds=754)
    return run


def test_card_says_what_the_directory_says(run: Run) -> None:
    text = write_card(run).read_text()
    assert text.startswith(f"# {ID}\n\nA model for the task **nmt** on **multi30k** with **phm n=4**")
    assert "Training is done. 1,200 optimizer steps, 13 min of training (begun 20" in text
    assert "| test/bleu | 31.46 | interval low 30.00 | nrefs:1\\|tok:13a |" in text
    assert "| val/loss | 1.50 |  |  |" in text
    assert "| parameters | 1,234,567 |" in text
    assert "| a \\| b | ein Hund |" in text
    assert f"phmrun predict {ID}" in text
    assert CONFIG in text
    assert "`predictions/`" in text


def test_every_table_of_the_card_is_regular(run: Run) -> None:
    lines = card(describe(run)).splitlines()
    for above, line in pairwise(lines):
        if line.startswith("|") and above.startswith("|"):
            assert line.replace("\\|", "").count("|") == above.replace("\\|", "").count("|")


def test_card_of_a_run_that_has_only_begun(tmp_path: Path) -> None:
    run = Run.create(tmp_path, ID, CONFIG)
    text = write_card(run).read_text()
    assert "It has not run yet." in text
    assert "## Scores" not in text
    assert "## Samples" not in text


def test_card_is_written_over(run: Run) -> None:
    write_card(run)
    run.update_metrics("test/bleu", 40.0)
    text = write_card(run).read_text()
    assert "40.00" in text
    assert "31.46" not in text


def test_description_of_a_damaged_directory(run: Run) -> None:
    run.status_path.write_text("{")
    run.metrics_path.write_text("[]")
    run.history.path.write_text("x\n{}\n")
    run.samples_path.write_text('{"columns": 3}')
    run.config_path.unlink()
    actual = describe(run)
    assert (actual.status, actual.metrics, actual.history, actual.samples, actual.config) == (None, {}, [], {}, "")
    assert len(actual.faults) == 4
    assert "cannot be read" in card(actual)


def test_sizes_and_holder(run: Run) -> None:
    run.checkpoints.mkdir()
    (run.checkpoints / "last.ckpt").write_bytes(b"x" * 100)
    (run.path / "mine.txt").write_bytes(b"xy")
    (run.path / "loop").symlink_to(run.path)
    with run.lock():
        actual = describe(run)
        assert actual.holder is not None
    sizes = {entry.name: entry.size for entry in actual.entries}
    assert (sizes["checkpoints/"], sizes["mine.txt"]) == (100, 2)
    assert [entry.name for entry in actual.entries][:2] == ["config.yaml", "status.json"]


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (119, "119 s"), (754, "13 min"), (12_000, "3 h 20 min")])
def test_durations_in_words(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(1234, "1,234"), (0.00012, "0.00012"), (31.456, "31.46"), (True, "True"), (None, ""), ("x", "x")],
)
def test_numbers_in_words(value: object, said: str) -> None:
    assert number(value) == said


def test_data_and_names_come_out_as_text(run: Run) -> None:
    hostile = "<script>x</script> ![](http://evil.example/x) [a](javascript:x) \x1b[2J |\n# b"
    run.set_state(State.FAILED, hostile, data=hostile, layer=hostile)
    run.update_metrics(hostile, {"value": 1.0, "signature": hostile})
    run.write_samples(["source", hostile], [[hostile, "x"]])
    run.config_path.write_text(f"data: {{train: {Path.home()}/private/x.en}}\n# ```\n# <script>\n")
    text = write_card(run).read_text()
    outside = text.split("````")[0]
    assert "\\<script\\>" in outside
    assert "<script>" not in outside.replace("\\<script", "")
    assert "](" not in outside.replace("\\](", "")
    assert "http://" not in outside
    assert "\x1b" not in text
    assert "\n# b" not in text
    assert str(Path.home()) not in text
    assert "````yaml\ndata: {train: ~/private/x.en}" in text
