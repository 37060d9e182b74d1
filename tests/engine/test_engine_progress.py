"""Progress of a training on the terminal."""

import io
import logging
import re

import pytest
from rich.console import Console
from toy import ToyModule, train_toy

from phmrun.engine import fit
from phmrun.engine.progress import TrainingProgress, training_bar


def test_a_log_has_a_line_every_so_often(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fit, "TrainingProgress", lambda _, *rest, **named: TrainingProgress(0.0, *rest, **named))
    with caplog.at_level(logging.INFO, "phmrun.engine"):
        train_toy(tmp_path, max_steps=3, accumulate=2)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("step ")]
    assert [line.split(" · ")[0] for line in lines] == ["step 1 of 3", "step 2 of 3", "step 3 of 3"]
    pattern = r"step \d of 3 · smoothed loss \d+\.\d{3} · lr \d\.\d\de[+-]\d\d · [\d,]+ items/s · \d:\d\d:\d\d left"
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert lines[-1].endswith("0:00:00 left")
    assert "lr 3.33e-01" in lines[-1]


@pytest.mark.parametrize("early", [{"patience": 9}, {"max_time": "01:00:00"}])
def test_the_time_left_is_a_bound_where_training_may_end_early(early, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fit, "TrainingProgress", lambda _, *rest, **named: TrainingProgress(0.0, *rest, **named))
    with caplog.at_level(logging.INFO, "phmrun.engine"):
        train_toy(tmp_path, max_steps=3, **early)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("step ")]
    assert [re.search(r" · up to \d:\d\d:\d\d left$", line) is not None for line in lines] == [True, True, False]


def test_a_quiet_log_has_the_last_line_only(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "phmrun.engine"):
        train_toy(tmp_path, max_steps=3)
    assert [record.getMessage()[:11] for record in caplog.records if "items/s" in record.getMessage()] == [
        "step 3 of 3"
    ]


def test_a_terminal_has_a_bar_that_goes_away(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    train_toy(tmp_path, max_steps=3)
    bars = []

    def remember(self, trainer, module, exception):
        bars.append(self._bar is not None)
        self.on_train_end(trainer, module)
        bars.append(self._bar is not None)

    monkeypatch.setattr(TrainingProgress, "on_exception", remember)
    with pytest.raises(RuntimeError, match="stop"):
        train_toy(tmp_path / "other", ToyModule({2: RuntimeError("stop")}))
    assert bars == [True, False]


@pytest.mark.parametrize(
    ("width", "bar", "text"),
    [
        (120, "━━━━", "smoothed loss 0.846 · lr 1.05e-04 · 101 items/s"),
        (60, "", "smoothed loss 0.846 · lr 1.05"),
        (40, "", "smoothed loss"),
    ],
)
def test_a_narrow_terminal_keeps_the_step_and_the_loss(width, bar, text):
    console = Console(file=io.StringIO(), width=width)
    progress = training_bar(1200, console)
    progress.add_task("smoothed loss 0.846 · lr 1.05e-04 · 101 items/s", total=1200, completed=777)
    console.print(progress.get_renderable())
    line = console.file.getvalue()
    assert line.count("\n") == 1
    assert all(part in line for part in ("training", " 777/1200", bar, text))
    assert bar or "━━━━" not in line
