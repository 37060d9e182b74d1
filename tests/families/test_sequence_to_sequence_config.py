import json

import pytest

from phmrun.config import ConfigError, Source, resolve, run_id, semantic_values, task_defaults
from phmrun.config.identity import canonical_identity
from phmrun.models.options import TransformerOptions
from phmrun.tasks.nmt.config import TranslationExperiment


def resolved(values):
    return resolve(
        TranslationExperiment, [task_defaults("nmt"), Source("x", values)], lambda name, table=False: ()
    ).config


def mistakes(values):
    with pytest.raises(ConfigError) as caught:
        resolved(values)
    return str(caught.value)


def test_the_default_preset_is_what_the_defaults_are():
    model = TransformerOptions()
    assert {key: getattr(model, key) for key in model.presets[model.preset]} == model.presets[model.preset]


@pytest.mark.parametrize(
    ("preset", "shape"),
    [("tiny", (128, 512, 4, 2, 2)), ("small", (256, 1024, 4, 3, 3)), ("base", (512, 2048, 8, 6, 6))],
)
def test_presets(preset, shape):
    model = resolved({"model": {"preset": preset}}).model
    assert (model.width, model.feedforward, model.heads, model.encoder_layers, model.decoder_layers) == shape


FILES = {"train_source": "a.en", "train_target": "a.de", "dev_source": "b.en", "dev_target": "b.de"}


def test_own_pairs_imply_their_name():
    assert resolved({"data": FILES}).data.name == "files"
    assert resolved({"data": {"prefix": "corpus/"}}).data.name == "files"


def test_places_of_files_are_no_part_of_the_name():
    first, second = (resolved({"data": {**FILES, "train_source": path}}) for path in ("a.en", "/elsewhere/a.en"))
    assert run_id(first, fingerprints={"x": "1"}) == run_id(second, fingerprints={"x": "1"})
    assert run_id(first, fingerprints={"x": "1"}) != run_id(second, fingerprints={"x": "2"})
    assert semantic_values(first)["data.name"] == "files"


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"data": {"train_source": "a.en"}}, "missing: train_target, dev_source, dev_target"),
        ({"data": {**FILES, "test_source": "c.en"}}, "belong together"),
        ({"data": {**FILES, "prefix": "corpus/"}}, "not both"),
        ({"data": {**FILES, "name": "multi30k"}}, "needs name=files"),
        ({"data": {"source": "de"}}, "same language"),
        ({"model": {"heads": 3}}, "3 heads do not divide the width 128"),
        ({"data": {"vocabulary": {"joint": False}}}, "tie=all needs"),
        ({"decoding": {"nbest": 9}}, "more than decoding.beam"),
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
