"""Configuration of language modeling: networks and presets, text, what is hashed."""

import pytest

from phmrun.config import ConfigError, Source, resolve, run_id, semantic_values, task_defaults
from phmrun.engine.counting import count_parameters
from phmrun.layers import options_of
from phmrun.tasks.lm.config import ENTRIES, LanguageModelExperiment


def resolved(*values):
    sources = [task_defaults("lm"), *(Source("x", value) for value in values)]
    return resolve(LanguageModelExperiment, sources, options_of).config


def refused(values, match):
    with pytest.raises(ConfigError, match=match):
        resolved(values)


def test_a_network_brings_its_dropouts_and_later_keys_override_them():
    config = resolved({"model": {"network": "awd-lstm", "dropout": 0.2}})
    model = config.model
    assert (model.dropout, model.input_dropout, model.weight_dropout, model.output_bias) == (0.2, 0.4, 0.5, True)
    back = resolved({"model": {"network": "awd-lstm"}}, {"model": {"network": "lstm"}}).model
    assert back == resolved().model


@pytest.mark.parametrize(
    ("model", "words", "millions"),
    [
        ({"network": "awd-lstm", "preset": "awd-lstm-ptb"}, "ptb", 24.2216),
        ({"network": "lstm", "preset": "lstm-wikitext-103"}, "wikitext-103", 91.8976),
        ({"network": "transformer-xl", "preset": "transformer-xl-wikitext-103"}, "wikitext-103", 151.1063),
    ],
)
def test_presets_are_the_papers_networks(model, words, millions):
    """The standard embedding has neither clusters nor, in the LSTM, output biases."""
    config = resolved({"model": model, "data": {"name": words}})
    assert count_parameters(config)["total"] == pytest.approx(millions * 1e6, abs=60)


def test_vocabulary_sizes_are_padded_or_the_corpus_s():
    assert resolved({"data": {"name": "wikitext-2"}}).sizes == (33_278,)
    vocabulary = {"size": 1001, "multiple_of": 8}
    assert resolved({"data": {"name": "ptb", "vocabulary": vocabulary}}).sizes == (1008,)
    assert resolved({"data": {"train": "a", "dev": "b"}}).sizes == (ENTRIES["ptb"],)


def test_own_text_files_imply_their_name():
    data = resolved({"data": {"train": "a.txt", "dev": "b.txt"}}).data
    assert (data.name, data.split_at) == ("files", "space")
    refused({"data": {"train": "a.txt"}}, "missing: dev")
    refused({"data": {"name": "ptb", "train": "a.txt"}}, "needs name=files")


def test_only_the_built_in_text_is_split_at_punctuation():
    assert resolved().data.split_at == "punctuation"
    assert resolved({"data": {"name": "ptb"}}).data.split_at == "space"
    assert resolved({"data": {"splitting": "space"}}).data.split_at == "space"


def test_stretches_of_scoring_are_those_of_training_unless_it_is_said():
    assert resolved({"batch": {"length": 33}}).evaluation_length == 33
    assert resolved({"batch": {"length": 33}, "decoding": {"length": 9}}).evaluation_length == 9


def test_settings_that_lm_has_not_are_refused():
    refused({"training": {"monitor": "accuracy"}}, "not among the validation scores of lm: loss")
    refused({"training": {"label_smoothing": 0.1}}, "label_smoothing: 0.1 is out of range")
    refused({"decoding": {"nbest": 2}}, "choice=sample")
    refused({"batch": {"unit": "tokens"}}, "streams")
    refused({"training": {"schedule": {"name": "cosine"}, "max_steps": None}}, "ends at training.max_steps")
    refused({"training": {"average_after": 2, "average": 1, "keep_last": 1}}, "set one of them")
    refused({"layer": "define"}, "makes the vectors of an embedding")


def test_what_is_asked_of_a_trained_run_is_no_part_of_its_name():
    asked = {
        "decoding": {"mode": "surprisal", "words": 3, "choice": "sample", "seed": 9, "characters": True, "batch": 7}
    }
    names = {run_id(resolved(values), fingerprints={}) for values in ({}, asked)}
    assert len(names) == 1
    for scoring in ({"streams": 1}, {"length": 9}, {"memory": 3}, {"codebooks": 8}):
        assert run_id(resolved({"decoding": scoring}), fingerprints={}) not in names
    assert "model.preset" not in semantic_values(resolved({"model": {"preset": "small"}}))
