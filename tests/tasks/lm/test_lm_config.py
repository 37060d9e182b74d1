"""Configuration of language modeling: networks and presets, text, what is hashed."""

import pytest

from phmrun.config import ConfigError, Source, resolve, task_defaults
from phmrun.config.layering import run_config
from phmrun.engine.counting import count_parameters
from phmrun.errors import PhmrunError
from phmrun.experiments import resolve_request
from phmrun.layers import options_of
from phmrun.tasks.lm.config import LanguageModelExperiment


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
    ("preset", "words", "millions"),
    [
        ("awd-lstm-ptb", "ptb", 24.2216),
        ("lstm-wikitext-103", "wikitext-103", 91.8976),
        ("transformer-xl-wikitext-103", "wikitext-103", 151.1063),
    ],
)
def test_presets_are_the_papers_networks(preset, words, millions):
    """The standard embedding has neither clusters nor, in the LSTM, output biases."""
    config = resolved({"model": {"preset": preset}, "data": {"name": words}})
    assert count_parameters(config)["total"] == pytest.approx(millions * 1e6, abs=60)


def test_a_preset_of_another_network_is_refused():
    settings = [("model.network", "lstm", "--model"), ("model.preset", "llama-1m", "--preset")]
    with pytest.raises(PhmrunError, match="llama-1m is of the network hf, not lstm"):
        resolve_request("lm", settings)
    twice = [("model.network", "lstm", "--model"), ("model.network", "awd-lstm", "--set")]
    assert resolve_request("lm", twice).resolved.config.model.network == "awd-lstm"  # the last one counts
    refused({"model": {"network": "llama-1m"}}, "'llama-1m' is a value of model.preset")
    refused({"model": {"network": "lstm", "preset": "llama-1m"}}, "is of the network hf, not lstm")


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ({"model": {"network": "transformer-xl", "vector_range": 0.1}}, "model.network=lstm or awd-lstm"),
        ({"data": {"vocabulary": {"kind": "bpe", "min_frequency": 2}}}, "data.vocabulary.kind=word"),
        ({"data": {"splitting": "space", "vocabulary": {"kind": "bpe"}}}, "data.vocabulary.kind=word"),
    ],
)
def test_a_setting_without_effect_is_refused_unless_a_record_has_it(values, needed):
    refused(values, f"it needs {needed} ")
    assert run_config(Source("config.yaml", {"task": "lm", **values}))


def test_settings_that_lm_has_not_are_refused():
    refused({"training": {"monitor": "accuracy"}}, "no validation score of lm: loss")
    refused({"training": {"label_smoothing": 0.1}}, "label_smoothing: 0.1 is out of range")
    refused({"decoding": {"codebooks": 2}}, "needs decoding.code_steps")
    refused({"batch": {"unit": "tokens"}}, "streams")
    refused({"training": {"schedule": {"name": "cosine"}, "max_steps": None}}, "ends at training.max_steps")
    refused({"training": {"average_after": 2, "average": 1, "keep_last": 1}}, "set one of them")
    refused({"layer": "define"}, "makes the vectors of an embedding")
