"""The networks of agreement: their sizes, and what a trained one says."""

import pytest
from tiny_experiments import configured, everywhere, run_experiment, run_of

from phmrun.engine.counting import count_parameters
from phmrun.engine.trained_model import open_run


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        ({}, 395_520),
        ({"structure": "phm", "n": 2}, 198_976),
        ({"structure": "phm", "n": 4}, 101_120),
        ({"structure": "phm", "n": 8}, 55_552),
        ({"structure": "hypercomplex"}, 100_608),
    ],
)
def test_the_encoders_of_table_6(tmp_path, layer, count):
    paper = {"width": 128, "feedforward": 512, "heads": 4, "layers": 2}
    counts = count_parameters(configured("sva", tmp_path, {"layer": layer, "model": paper}))
    norms = sum(module["count"] for module in counts["modules"] if module["kind"] == "norm")
    inside = sum(entry["count"] for scope, entry in counts["by_scope"].items() if scope not in ("embedding", "output"))
    assert inside - norms == count


@pytest.mark.parametrize("layer", [{}, {"structure": "phm", "n": 4}])
def test_the_lstm_trains(tmp_path, layer):
    config = configured("sva", tmp_path / "corpus", {"model": {"network": "lstm", "layers": 2}, "layer": layer})
    run = run_of(run_experiment(config, tmp_path / "runs"))
    assert run.metrics()["test/accuracy"]["n"] == 12
    history = list(run.history.read())
    assert [row["step"] for row in history if "val/accuracy" in row] == [3, 6, 9, 10]


def test_it_learns_and_answers(tmp_path):
    training = {"max_steps": 150, "optimizer": {"lr": 0.01}, "accumulate": 1, "validate_every": 50, "average": 0}
    settings = {"training": training, "model": {"dropout": 0.0, "activation_dropout": 0.0}}
    config = configured("sva", tmp_path / "corpus", settings, everywhere("phm", n=2))
    run = run_of(run_experiment(config, tmp_path / "runs"))
    scores = run.metrics()
    assert scores["test/accuracy"]["value"] > scores["test/accuracy-of-majority"]["value"] + 15
    answers = list(open_run(run).predictor().predict(["n3s x1", "n3 x1"]))
    assert [answer.values["prediction"] for answer in answers] == ["plural", "singular"]
    for answer in answers:
        shares = answer.values["probabilities"]
        assert answer.text == f"{answer.values['prediction']}\t{max(shares.values()):.4f}"
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    rows = (run.predictions / "test.tsv").read_text().splitlines()
    right = sum(row.split("\t")[0] == row.split("\t")[2] for row in rows[1:])
    assert scores["test/accuracy"]["value"] == pytest.approx(100 * right / 12)
