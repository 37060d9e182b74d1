"""The course of a score: which one, and what the legend calls the runs."""

from phmrun.ledger import Run
from phmrun.results.plots.canvas import styles
from phmrun.results.plots.runs import common_score, curve, draw_history

ROWS = [
    {"step": 50, "time": 30.0, "train/loss": 5.0},
    {"step": 100, "time": 60.0, "val/loss": 4.0, "val/perplexity": 54.6},
    {"step": 200, "time": 180.0, "val/loss": 3.0, "val/perplexity": 20.1},
]


def test_the_picture(tmp_path):
    run = Run.create(tmp_path, "lm-run-1", "task: lm\n")
    for row in ROWS:
        run.history.append(row)
    assert common_score([run]) == "val/perplexity"
    figure = draw_history([curve(run, "val/perplexity", f"seed {seed}") for seed in range(11)], "val/perplexity")
    (axes,) = figure.axes
    styles = {(line.get_color(), line.get_linestyle()) for line in axes.get_lines()}
    assert len(styles) == 11
    assert [line.get_xdata().tolist() for line in axes.get_lines()] == [[100, 200]] * 11
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("optimizer steps", "validation perplexity")


def test_a_structure_has_one_color_in_every_picture():
    first, second = styles(["dense", "phm n=2", "phm n=4"]), styles(["monarch", "seed 3", "phm n=4, lr 0.1"])
    assert first[1].color == first[2].color == second[2].color
    assert first[1].dashes != first[2].dashes
    assert len({first[0].color, first[1].color, second[0].color}) == 3
