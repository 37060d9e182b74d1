"""The built-in corpus of translation: written once, scored in parts, and translated by a dictionary."""

import pytest

from phmrun.config import Source, resolve, task_defaults
from phmrun.errors import PhmrunError
from phmrun.layers import options_of
from phmrun.tasks.nmt import data as nmt_data
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.tasks.nmt.data import build_data, builtin_corpus


def config_of(**data):
    return resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", {"data": data})], options_of).config


class SmallCorpus:
    """Stands for the built-in corpus, which takes seconds to generate."""

    VERSION = 7

    @staticmethod
    def write_translation(directory, seed):
        for split in ("train", "dev", "test"):
            for language, word in (("en", "dog"), ("de", "hund")):
                directory.mkdir(parents=True, exist_ok=True)
                (directory / f"{split}.{language}").write_text(f"the {word} {seed}\n" * 3)
        (directory / "test.part").write_text("seen\nnovel\nseen\n")

    @staticmethod
    def dictionary_baseline(pairs, sources):
        table = dict(zip(*(side.split() for side in next(iter(pairs))), strict=True))
        return [" ".join(table.get(word, word) for word in source.split()) for source in sources]


def test_the_builtin_corpus_is_written_once_and_scored_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(nmt_data, "builtin", SmallCorpus)
    config = config_of(name="builtin", source="en", target="de")
    found = builtin_corpus(config.data, tmp_path)
    assert found.fingerprints == {"builtin": f"7-{nmt_data.CORPUS_SEED}"}
    assert found.parts["test"].read_text().splitlines() == ["seen", "novel", "seen"]
    assert found.files["train"][1].name == "train.de"
    data = build_data(config, tmp_path)
    assert data.baselines["dictionary"](["the dog barks"]) == ["the hund barks"]
    monkeypatch.setattr(SmallCorpus, "write_translation", lambda *_: pytest.fail("written twice"))
    assert builtin_corpus(config.data, tmp_path).files == found.files
    with pytest.raises(PhmrunError, match="no language 'fr'") as caught:
        build_data(config_of(name="builtin", source="en", target="fr"), tmp_path)
    assert caught.value.valid == ("en", "de")
