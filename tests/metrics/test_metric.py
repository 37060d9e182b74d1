"""Metrics as objects: names, parts, floors, and a third-party task whose own metric every reader takes."""

import numpy as np
import pytest

from phmrun.ledger.history import in_shown_units, is_share
from phmrun.ledger.wording import explained, head, title
from phmrun.metric import Baseline, Metric, find_metric, floors_of, metric_of, part_of
from phmrun.metrics.items import Items
from phmrun.registry import METRICS, TASKS
from phmrun.task import Task


@pytest.mark.parametrize(
    ("score", "name", "part"),
    [
        ("test/bleu", "bleu", ""),
        ("test/sentence-bleu-nltk", "sentence-bleu-nltk", ""),
        ("test/label-accuracy", "label-accuracy", ""),
        ("test/accuracy-of-majority-matched", "accuracy", ""),
        ("test/accuracy-matched", "accuracy", "matched"),
        ("val/las-2", "las", "2"),
        ("time/step", "time", "step"),
    ],
)
def test_a_score_s_metric_and_part(score, name, part):
    metric = find_metric(score)
    assert (metric.name, part_of(score, metric)) == (name, part)


def test_every_announced_metric_has_the_name_of_its_object():
    assert {name: METRICS.get(name).name for name in METRICS.names()} == {name: name for name in METRICS.names()}


def test_floors_are_scores_of_the_same_items():
    assert floors_of("test/perplexity") == ["test/perplexity-of-unigram"]
    assert "test/accuracy-of-majority-matched" in floors_of("test/accuracy-matched")
    assert floors_of("test/bleu") == ["test/bleu-of-copy", "test/bleu-of-dictionary"]
    assert floors_of("test/sentence-bleu-nltk")[0] == "test/sentence-bleu-nltk-of-copy"
    assert floors_of("test/bleu-of-copy") == []


def f1_of(sums):
    return 200 * sums[:, 0] / np.maximum(sums[:, 1], 1)


def read_items(run, split, part):
    rows = [line.split("\t") for line in (run.predictions / f"{split}.tsv").read_text().splitlines()]
    counts = [[ours == gold == "1", (ours == "1") + (gold == "1")] for ours, gold, name in rows if part in ("", name)]
    return Items(np.array(counts, dtype=float), mark="gold")


F1 = Metric("f1", "F1", "%", margin=1.0, is_share=True, measure=f1_of, read_items=read_items, floors=("always",))
EDITS = Metric("edits", "edits per item", lower_is_better=True)


@pytest.fixture
def task(monkeypatch):
    parts = dict.fromkeys(("schema", "vocabulary", "data", "module", "predictor"), "")
    created = Task(
        "spans",
        "A third-party task.",
        **parts,
        metrics=(F1, EDITS),
        baselines=(Baseline("always", "every item is a span"),),
    )
    monkeypatch.setitem(TASKS._registered, "spans", created)
    return created


def test_words_units_and_direction_of_a_third_party_metric(task):
    assert (title("test/f1-long"), title("val/edits"), head("test/f1")) == (
        "test F1 long (%)",
        "validation edits per item",
        "F1 (%)",
    )
    assert explained(["test/f1-of-always"]) == ["always: every item is a span"]
    assert metric_of("test/edits").lower_is_better
    assert floors_of("test/f1-long") == ["test/f1-of-always-long"]
    assert is_share("val/f1")
    assert in_shown_units({"step": 3, "val/f1": 0.5}) == {"step": 3, "val/f1": 50.0}
