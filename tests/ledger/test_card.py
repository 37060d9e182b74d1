"""The run's page and the description behind it."""

from pathlib import Path

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.card import write_card

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
