import json

import pytest

from phmrun.config import ConfigError, Source, resolve, task_defaults
from phmrun.config.identity import canonical_identity
from phmrun.layers import options_of
from phmrun.tasks.nmt.config import TranslationExperiment


def resolved(values):
    return resolve(TranslationExperiment, [task_defaults("nmt"), Source("x", values)], options_of).config


def mistakes(values):
    with pytest.raises(ConfigError) as caught:
        resolved(values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("preset", "shape"),
    [("tiny", (128, 512, 4, 2, 2)), ("small", (256, 1024, 4, 3, 3)), ("base", (512, 2048, 8, 6, 6))],
)
def test_presets(preset, shape):
    model = resolved({"model": {"preset": preset}}).model
    assert (model.width, model.feedforward, model.heads, model.encoder_layers, model.decoder_layers) == shape


FILES = {"train_source": "a.en", "train_target": "a.de", "dev_source": "b.en", "dev_target": "b.de"}


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"data": {"train_source": "a.en"}}, "missing: train_target, dev_source, dev_target"),
        ({"data": {**FILES, "test_source": "c.en"}}, "belong together"),
        ({"data": {**FILES, "name": "multi30k"}}, "needs name=files"),
        ({"data": {"source": "de"}}, "same language"),
        ({"model": {"heads": 3}}, "3 heads do not divide the width 128"),
        ({"data": {"vocabulary": {"joint": False}}}, "tie=all needs"),
        ({"decoding": {"nbest": 9}}, "nbest=9 is more than beam=5"),
        ({"training": {"schedule": {"name": "noam"}}}, "fixes the learning rate"),
    ],
)
def test_contradictions(values, what):
    assert what in mistakes(values)


@pytest.mark.parametrize(
    ("target", "tokenizer"),
    [("zh", "zh"), ("zh-TW", "zh"), ("zho_Hans", "zh"), ("ja", "ja-mecab"), ("ko_KR", "ko-mecab"), ("de", "13a")],
)
def test_bleu_is_tokenized_by_the_target_language(target, tokenizer):
    config = resolved({"data": {"target": target}})
    assert config.tokenizer == tokenizer
    assert resolved({"data": {"target": target}, "decoding": {"tokenizer": "flores200"}}).tokenizer == "flores200"
    versions = json.loads(canonical_identity(config, {})).get("mathematics", {})
    assert versions == ({} if tokenizer == "13a" else {f"tokenizer={tokenizer}": 2})
