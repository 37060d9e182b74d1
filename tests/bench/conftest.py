"""A run of a made-up corpus, as training leaves it behind, but small and quick."""

import pytest
from tiny_experiments import configured

from phmrun.config import to_yaml
from phmrun.engine.data import build_data
from phmrun.ledger import Run


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A run that has a config and a vocabulary, but no checkpoint yet."""
    values = {
        "model": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0},
        "layer": {"structure": "phm", "n": 4},
        "batch": {"unit": "sentences", "size": 8},
        "training": {"clip": 1.0},
    }
    folder = tmp_path_factory.mktemp("bench")
    config = configured("nmt", folder / "corpus", values)
    data = build_data(config)
    data.prepare()
    created = Run.create(folder / "runs", "nmt-files-phm-1-0123456789ab", to_yaml(config))
    data.vocabulary.save(created.vocabulary)
    return created
