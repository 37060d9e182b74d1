"""A run of the built-in corpus, as training leaves it behind, but small and quick."""

import pytest

from phmrun.config import Source, resolve, task_defaults, to_yaml
from phmrun.ledger import Run
from phmrun.tasks.nmt.config import TranslationExperiment


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A prefix: files of a few sentence pairs for each split."""
    folder = tmp_path_factory.mktemp("corpus")
    words = ("red", "green", "blue", "white", "black")
    for split, count in (("train", 60), ("dev", 5), ("test", 70)):
        pairs = [[words[(number * step) % 5] for step in range(1, 2 + number % 7)] for number in range(count)]
        (folder / f"{split}.en").write_text("".join(f"{' '.join(pair)}\n" for pair in pairs), encoding="utf-8")
        (folder / f"{split}.de").write_text("".join(f"{' '.join(pair[::-1])}\n" for pair in pairs), encoding="utf-8")
    return f"{folder}/"


@pytest.fixture(scope="session")
def run(corpus, tmp_path_factory):
    """A run that has a config and a vocabulary, but no checkpoint yet."""
    from phmrun.engine.data import build_data

    values = {
        "data": {"prefix": corpus, "vocabulary": {"kind": "word", "size": 16, "joint": True}},
        "model": {"width": 16, "feedforward": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0},
        "layer": {"structure": "phm", "n": 4},
        "batch": {"unit": "sentences", "size": 8},
        "training": {"accumulate": 2, "max_steps": 1, "clip": 1.0},
        "decoding": {"max_length_offset": 3},
    }
    from phmrun.layers import options_of

    config = resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", values)], options_of).config
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHMRUN_CACHE", str(tmp_path_factory.mktemp("cache")))
        data = build_data(config)
        data.prepare()
        created = Run.create(tmp_path_factory.mktemp("runs"), "nmt-files-phm-1-0123456789ab", to_yaml(config))
        data.vocabulary.save(created.vocabulary)
        yield created
