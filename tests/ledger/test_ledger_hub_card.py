"""A model card that the Hub's own reader reads."""

import pytest
import yaml

from phmrun.ledger import Run, State
from phmrun.ledger.card import hub_card, write_hub_card


@pytest.fixture
def run(tmp_path):
    name = "nmt-multi30k-phm-n4-1-0123456789ab"
    created = Run.create(tmp_path, name, "task: nmt\nseed: 1\ndata: {name: multi30k}\nlayer: {structure: phm, n: 4}\n")
    created.update_metrics("validation/best", {"value": 9.0})
    created.update_metrics("train/loss", {"value": 1.0})
    created.update_metrics("test/bleu", {"value": 36.5, "signature": "nrefs:1|tok:13a"})
    created.update_metrics("test/sentences_per_second", {"value": 50.0})
    created.update_metrics("test/accuracy-of-majority", 50.0)
    created.update_metrics("dev/accuracy-matched", 70.25)
    created.update_metrics("file-x/bleu", 1.0)
    created.set_state(State.DONE)
    return created


def test_the_results_are_those_of_splits(run, tmp_path):
    head = yaml.safe_load(hub_card(run).split("---\n")[1])
    (model,) = head["model-index"]
    assert model["name"] == run.id
    assert (head["pipeline_tag"], head["datasets"]) == ("translation", ["multi30k"])
    test, dev = model["results"]
    assert test == {
        "task": {"type": "translation", "name": "nmt"},
        "dataset": {"type": "multi30k", "name": "multi30k", "split": "test"},
        "metrics": [{"type": "bleu", "value": 36.5, "name": "BLEU", "args": {"signature": "nrefs:1|tok:13a"}}],
    }
    assert dev["metrics"] == [{"type": "accuracy", "value": 70.25, "name": "Accuracy matched"}]


def test_read_by_the_hubs_own_reader(run, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard.load(write_hub_card(run, tmp_path / "out"))
    assert card.data.library_name == "phmrun"
    actual = [(result.dataset_split, result.metric_type, result.metric_value) for result in card.data.eval_results]
    assert actual == [("test", "bleu", 36.5), ("dev", "accuracy", 70.25)]
    assert run.id in card.text
