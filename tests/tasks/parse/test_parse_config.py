"""Valid settings of a parsing experiment, and errors for invalid ones."""

import pytest

from phmrun.config import ConfigError, Source, resolve, task_defaults
from phmrun.engine.counting import count_parameters
from phmrun.layers import options_of
from phmrun.tasks.parse.config import ParsingExperiment


def config_of(**values):
    return resolve(ParsingExperiment, [task_defaults("parse"), Source("test", values)], options_of).config


def test_the_papers_network_by_preset():
    """Word vectors, unlike the paper's figures, are counted, as are tags and characters."""
    model = {"preset": "paper"}
    vocabulary = {"multiple_of": 1}
    dense = count_parameters(config_of(model=model, data={"vocabulary": vocabulary}))
    scopes = {name: count["count"] for name, count in dense["by_scope"].items()}
    maps = [scopes[name] for name in ("lstm", "letter_lstm", "arc_mlp", "label_mlp")]
    assert 0.99 * sum(maps) < dense["block_matrices"]["count"] < sum(maps) + scopes["letter_map"]  # without biases
    assert scopes["lstm"] == 2_567_200
    assert scopes["letter_lstm"] == 241_200
    assert scopes["arc_mlp"] + scopes["label_mlp"] == 320_800 + 80_200
    assert scopes["arc_classifier"] == 160_400
    assert scopes["label_classifier"] == 377_437
    for structure in ("symmetric", "circulant"):
        reduced = count_parameters(
            config_of(model=model, data={"vocabulary": vocabulary}, output={"structure": structure})
        )
        assert dense["total"] - reduced["total"] == 160_400 + 377_437 - 1_200 - 11_100


@pytest.mark.parametrize(
    ("values", "where", "what"),
    [
        ({"data": {"train_fraction": "5/4"}}, "data.train_fraction", "at most 1"),
        ({"data": {"train_fraction": "0"}}, "data.train_fraction", "more than 0"),
        ({"data": {"train_fraction": "a/4"}}, "data.train_fraction", "a fraction such as 1/4"),
        ({"data": {"train_fraction": "1/0"}}, "data.train_fraction", "a fraction such as 1/4"),
        ({"data": {"train_fraction": "1e-999999999"}}, "data.train_fraction", "a fraction such as 1/4"),
        ({"data": {"train": "a.conllu"}}, "data", "missing: dev"),
        ({"data": {"name": "ud/X", "dev": "a"}}, "data", "needs name=files"),
        ({"data": {"name": "ud/X", "train": "test"}}, "data", "valid: train, dev"),
        ({"data": {"name": "ud/X", "train": "train,dev"}}, "data", "set hold_out"),
        ({"data": {"train": []}}, "data.train", "at least 1"),
        ({"data": {"train": "a", "dev": "b", "hold_out": 0.1}}, "data", "either dev or hold_out"),
        ({"training": {"monitor": "bleu"}}, "", "loss, uas, las"),
        ({"decoding": {"tree": "best"}}, "decoding.tree", "mst"),
        ({"model": {"cell": "gru"}}, "model.cell", "coupled"),
        ({"model": {"start": "usual", "word_start": "zero"}}, "model.word_start", "it needs model.start=parser-v2"),
    ],
)
def test_bad_values_are_refused_with_key_and_valid_values(values, where, what):
    with pytest.raises(ConfigError) as caught:
        config_of(**values)
    assert where in str(caught.value)
    assert what in str(caught.value)
