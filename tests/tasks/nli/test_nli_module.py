"""The network of inference: its sizes, its word vectors, and what a trained one says."""

import pytest
import torch
from tiny_experiments import configured, everywhere, run_experiment, run_of

from phmrun.engine.checkpoints import load_checkpoint
from phmrun.engine.counting import count_parameters
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.families.sentence_classification.module import place_vectors
from phmrun.families.sentence_classification.vectors import Found
from phmrun.layers import build_embedding
from phmrun.layers.network import replace_structures
from phmrun.ledger.status import State

PAPER = {"width": 300, "hidden": 300, "mlp": 300, "mlp_layers": 2}


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        ({}, 721_200),
        ({"structure": "hypercomplex"}, 181_200),
        ({"structure": "phm", "n": 2}, 361_264),
        ({"structure": "phm", "n": 5}, 146_200),
        ({"structure": "phm", "n": 10}, 81_200),
    ],
)
def test_the_cells_of_table_1(tmp_path, layer, count):
    counts = count_parameters(configured("nli", tmp_path, {"layer": layer, "model": PAPER}))
    assert counts["by_scope"]["lstm"]["count"] == count
    assert counts["by_scope"]["output"]["count"] == 1200 * 300 + 300 + 300 * 300 + 300 + 300 * 3 + 3


def table_of(embedding):
    return next(parameter for name, parameter in embedding.named_parameters() if parameter.shape[0] == 9)


@pytest.mark.parametrize("structure", [{}, {"structure": "projective", "width": 4}])
def test_vectors_are_placed_and_other_words_get_their_size(structure):
    torch.manual_seed(0)
    embedding = build_embedding(9, 4 if not structure else 6, **structure)
    vectors = 10 * torch.randn(3, 4)
    place_vectors(embedding, Found(torch.tensor([7, 4, 8]).numpy(), vectors.numpy()))
    table = table_of(embedding)
    torch.testing.assert_close(table[[7, 4, 8]].detach(), vectors)
    others = table[[0, 1, 2, 3, 5, 6]].detach()
    assert 4 < float(others.abs().max()) < 40


@pytest.mark.parametrize("learnt", [None, True])
def test_vectors_stay_unless_they_are_to_be_learnt(tmp_path, learnt):
    path = tmp_path / "v.txt"
    path.write_text("".join(f"w{n} {' '.join(str((n * k) % 7 / 7) for k in range(48))}\n" for n in range(40)))
    settings = {"data": {"vectors": str(path)}, "model": {"train_embedding": learnt}}
    config = configured("nli", tmp_path / "corpus", settings)
    run = run_of(run_experiment(config, tmp_path / "runs"))
    weights = load_checkpoint(run.checkpoints / "last.ckpt")["state_dict"]
    (table,) = (weight for name, weight in weights.items() if name.startswith("network.embedding"))
    words = (run.vocabulary / "words" / "words.txt").read_text().splitlines()
    number = words.index("w3")
    placed = torch.tensor([(3 * k) % 7 / 7 for k in range(48)])
    assert torch.allclose(table[number], placed, atol=1e-6) == (learnt is None)
    assert run.parameters()["data"]["vectors"]["types"] > 0


def test_a_frozen_table_stays_frozen_in_another_structure():
    embedding = build_embedding(9, 4).requires_grad_(False)
    replace_structures(embedding, {"structure": {"structure": "low-rank", "rank": 2}})
    assert not any(parameter.requires_grad for parameter in embedding.parameters())


def test_it_learns_and_answers(tmp_path):
    training = {"max_steps": 150, "optimizer": {"lr": 0.01}, "accumulate": 1, "validate_every": 50, "average": 0}
    config = configured("nli", tmp_path / "corpus", {"training": training}, everywhere("phm", n=2))
    run = run_of(run_experiment(config, tmp_path / "runs"))
    scores = run.metrics()
    assert scores["test/accuracy"]["value"] > scores["test/accuracy-of-majority"]["value"] + 15
    (answer,) = open_run(run).predictor().predict(["w1 w2 w3\tnot w1"])
    assert set(answer.values["probabilities"]) == {"entailment", "neutral", "contradiction"}
    for header in ("hypothesis\tlabel\tpremise", "sentence2\tgold_label\tsentence1"):
        assert list(open_run(run).predictor().predict([header, "not w1\t-\tw1 w2 w3"])) == [answer]
    with pytest.raises(PhmrunError, match="3 columns instead of 2"):
        list(open_run(run).predictor().predict(["premise\tpremise\thypothesis", "a\tb\tc"]))
    with pytest.raises(PhmrunError, match="1 column instead of 2"):
        list(open_run(run).predictor().predict(["no hypothesis"]))
    with pytest.raises(PhmrunError, match="input:2: the line is empty"):
        list(open_run(run).predictor().predict(["w1\tw2", ""]))
    labels = run.vocabulary / "labels.json"  # as of labels in another order
    labels.write_text(labels.read_text().replace('"entailment"', '""').replace("neutral", "entailment"))
    with run.lock():
        run.set_state(State.INTERRUPTED)
    with pytest.raises(PhmrunError, match="the vocabulary of that run is another one"):
        run_experiment(config, tmp_path / "runs")
