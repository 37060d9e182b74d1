"""Keys of the decoding section, replaced after training."""

import pytest

from phmrun.config import ConfigError, with_decoding
from phmrun.tasks.nmt.config import TranslationExperiment


def test_some_keys_replaced():
    config = TranslationExperiment()
    changed = with_decoding(config, {"beam": 9, "alpha": 0})
    assert (changed.decoding.beam, changed.decoding.alpha) == (9, 0.0)
    assert changed.decoding.nbest == config.decoding.nbest
    assert config.decoding.beam == 5
    assert with_decoding(config, {}) is config


def test_all_unknown_keys_are_named_with_the_nearest():
    with pytest.raises(ConfigError) as caught:
        with_decoding(TranslationExperiment(), {"baem": 9, "x": 1})
    assert [problem.key for problem in caught.value.problems] == ["decoding.baem", "decoding.x"]
    assert "did you mean 'beam'" in str(caught.value)


def test_more_hypotheses_than_the_beam_holds_are_an_error():
    with pytest.raises(ConfigError, match="nbest=3 is more than beam=2"):
        with_decoding(TranslationExperiment(), {"nbest": 3, "beam": 2})
