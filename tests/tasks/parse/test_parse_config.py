"""Valid settings of a parsing experiment, and errors for invalid ones."""

import pytest

from phmrun.config import ConfigError, Source, resolve, run_id, task_defaults
from phmrun.config.identity import canonical_identity, digits_of, earlier_identities
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


def test_plain_cells_have_a_gate_more():
    scopes = count_parameters(config_of(model={"preset": "paper", "cell": "plain"}))["by_scope"]
    assert scopes["lstm"]["count"] == 2_567_200 + 6 * (800 - 400)  # a second bias, no first state


def test_masks_of_each_direction_need_cells_that_run_each_direction():
    assert config_of(model={"preset": "paper", "direction_masks": True}).model.direction_masks
    with pytest.raises(ConfigError, match="direction_masks=true needs cell=parser-v2, not cell=plain"):
        config_of(model={"preset": "paper", "cell": "plain", "direction_masks": True})


@pytest.mark.parametrize(("key", "value"), [("tag_start", "drawn"), ("word_start", "zero")])
def test_starts_of_vectors_need_the_start_that_reads_them(key: str, value: str):
    assert getattr(config_of(model={"preset": "paper", key: value}).model, key) == value
    with pytest.raises(ConfigError, match=f"{key}={value} needs start=parser-v2, not start=usual"):
        config_of(model={"preset": "small", key: value})


def test_own_trees_imply_their_name():
    config = config_of(data={"train": "a.conllu, b.conllu.gz", "dev": "c.conllu"})
    assert (config.data.name, config.data.train) == ("files", ("a.conllu", "b.conllu.gz"))
    assert config_of(data={"train": ["train", "dev"], "hold_out": 0.1}).data.name == "builtin"
    assert config_of(data={"train": "a", "hold_out": 0.1}).data.name == "files"


def test_where_files_are_is_no_part_of_the_name():
    names = [
        run_id(config_of(data={"train": f"{place}/a", "dev": f"{place}/b"}), fingerprints={}) for place in ("x", "y")
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("given", "kept"), [("1/4", "1/4"), ("2/4", "1/2"), (0.75, "3/4"), ("4/4", "1"), (1, "1"), ("0.5", "1/2")]
)
def test_train_fractions_are_reduced(given, kept):
    assert config_of(data={"train_fraction": given}).data.train_fraction == kept


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
    ],
)
def test_bad_values_are_refused_with_key_and_valid_values(values, where, what):
    with pytest.raises(ConfigError) as caught:
        config_of(**values)
    assert where in str(caught.value)
    assert what in str(caught.value)


@pytest.mark.parametrize(("prefix", "key"), [("letter", "letters"), ("character", "characters")])
def test_renamed_keys_are_read_under_both_names_and_runs_keep_their_ids(prefix, key):
    model = {f"{prefix}_width": 5, f"{prefix}_hidden": 6, f"{prefix}_pooling": "attention", "cell": "coupled"}
    config = config_of(model=model, data={"vocabulary": {key: 7}})
    assert (config.model.character_width, config.data.vocabulary.characters) == (5, 7)
    # The id of runs under the former keys, before the masks of weight dropout had version 2.
    former = [digits_of(identity) for identity in earlier_identities(canonical_identity(config, {}))]
    assert former == ["2dfbffc12f20"]
