"""The course of a score: which one, over what, and what the legend calls the runs."""

import pytest

from phmrun.config import Source, resolve, task_defaults, to_yaml
from phmrun.errors import PhmrunError
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.registry import STRUCTURES, TASKS
from phmrun.results.plots.canvas import save_figure, styles
from phmrun.results.plots.runs import Curve, curves, default_name, draw_history

ROWS = [
    {"step": 50, "time": 30.0, "train/loss": 5.0},
    {"step": 100, "time": 60.0, "val/loss": 4.0, "val/perplexity": 54.6},
    {"step": 200, "time": 180.0, "val/loss": 3.0, "val/perplexity": 20.1},
]


def run(tmp_path, number, rows=ROWS, epoch=100, **values):
    config = resolve(TASKS.get("lm").load("schema"), [task_defaults("lm"), Source("x", values)], options_of).config
    created = Run.create(tmp_path, f"lm-run-{number}", to_yaml(config))
    for row in rows:
        created.history.append(row)
    created.write_parameters({"total": 1, **({"steps_per_epoch": epoch} if epoch else {})})
    return created


def test_the_picture(tmp_path):
    runs = [run(tmp_path, number, seed=number) for number in range(1, 12)]
    figure = draw_history(curves(runs, "val/perplexity", "epoch"), "val/perplexity", "epoch", log=True)
    (axes,) = figure.axes
    styles = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(styles) == 11
    assert [line.get_xdata().tolist() for line in axes.get_lines()] == [[1, 2]] * 11
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("epochs", "validation perplexity", "log")
    save_figure(figure, tmp_path / "history.svg")
    assert b"seed 11" in (tmp_path / "history.svg").read_bytes()
    assert default_name(runs, "history").name == "history-lm-run-1.png"


@pytest.mark.parametrize(("score", "who"), [("val/loss", "--score train/loss has"), ("train/loss", "Training records")])
def test_a_curve_of_one_point_is_refused(score, who):
    with pytest.raises(PhmrunError, match=rf"dense has a single value of {score}, 3\.25, and a curve needs") as caught:
        draw_history([Curve("dense", [20], [3.25])], score, "step")
    assert caught.value.hint.startswith(f"{who} one every 50 steps")


def test_a_curve_that_diverges_has_its_name_at_its_last_number():
    figure = draw_history([Curve("dense", [1, 2, 3], [5.0, 4.0, float("nan")])], "val/loss", "step")
    assert [note.xy for note in figure.axes[0].texts] == [(2, 4.0)]


def test_a_structure_has_one_color_in_every_picture(monkeypatch):
    first, second = styles(["dense", "phm n=2", "phm n=4"]), styles(["monarch", "seed 3", "phm n=4, lr 0.1"])
    assert first[1].color == first[2].color == second[2].color
    assert first[1].dashes != first[2].dashes
    assert len({first[0].color, first[1].color, second[0].color}) == 3
    monkeypatch.setitem(STRUCTURES._registered, "Lo_ra+2", None)
    first, second = styles(["seed 3", "Lo_ra+2 rank=4"]), styles(["Lo_ra+2", "seed 3"])
    assert first[1].color == second[0].color
