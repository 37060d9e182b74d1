"""Per-item values of a score, written to a small file and read back."""

import json

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from tiny_experiments import configured, run_experiment, run_of

from phmrun.engine.evaluation import _scores_of_items
from phmrun.errors import counted
from phmrun.ledger import Run
from phmrun.ledger.record import ITEMS
from phmrun.metric import Metric, metric_of, metrics_of
from phmrun.metrics import bleu
from phmrun.metrics.items import Items
from phmrun.metrics.packing import _column_of, _text_of, packed, unpacked
from phmrun.metrics.translation import bleu_counts, chrf_counts, nltk_counts
from phmrun.registry import METRICS
from phmrun.results.items import RunItems, items_of, to_json
from phmrun.results.verification import Link, verify_run


@given(arrays(np.int64, st.integers(0, 300), elements=st.integers(0, 2**20)))
def test_columns_come_back(column):
    assert np.array_equal(_column_of(_text_of(column.astype(float)), len(column)), column)


def test_right_and_wrong_take_a_bit_each():
    right = np.random.default_rng(0).integers(0, 2, 8000).astype(float)
    assert len(_text_of(right)) < 8000 / 8 * 4 / 3 + 100


@pytest.mark.parametrize("column", [[-1.0], [0.5]])
def test_what_is_no_count_is_refused(column):
    with pytest.raises(ValueError, match="natural numbers"):
        _text_of(np.array(column))


@pytest.mark.parametrize("text", ["", "0:", "64:AAAA", "1:!", "1:AAAA", "x:AAAA"])
def test_damaged_columns_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        unpacked({"items": 3, "mark": "", "file": "", "columns": [text]})


@pytest.mark.parametrize("change", [{"items": 2}, {"items": 900}, {"columns": ["6:"]}, {"columns": [3]}])
def test_another_number_of_counts_is_damage(change):
    written = packed(Items(np.arange(16.0).reshape(-1, 1), "words", "test"))
    assert unpacked(written).counts.shape == (16, 1)
    with pytest.raises(ValueError, match="damaged items"):
        unpacked({**written, **change})


def of_lengths(run, split, part):
    """Number of words in each prediction, a third-party score."""
    lines = (run.predictions / f"{split}.txt").read_text().splitlines()
    return Items(np.array([[len(line.split()), 1] for line in lines if part in line]), mark="")


def test_a_score_of_somebody_s_own_says_where_its_items_are(tmp_path, monkeypatch):
    metric = Metric("length", measure=lambda sums: sums[:, 0] / sums[:, 1], read_items=of_lengths)
    monkeypatch.setitem(METRICS._registered, "length", metric)
    run = Run.create(tmp_path, "nmt-files-dense-1-0123456789ab", "task: nmt\n")
    run.predictions.mkdir()
    (run.predictions / "test.txt").write_text("a b c\nd\n")
    written = to_json(run, "test/length")
    assert unpacked(written).counts.tolist() == [[3, 1], [1, 1]]
    (part,) = RunItems().of([run.path], "test/length-d")
    assert part.counts.tolist() == [[1, 1]]
    assert to_json(run, "test/length-of-copy") is None
    assert to_json(run, "test/wordiness") is None


def test_parts_of_translations_have_items_too(tmp_path):
    config = configured("nmt", tmp_path / "corpus")
    run = run_of(run_experiment(config, tmp_path / "runs"))
    references = (tmp_path / "corpus/test.bb").read_text().splitlines()
    outputs = (run.predictions / "test.txt").read_text().splitlines()
    (items,) = RunItems().of([run.path], "test/bleu")
    assert len(items.counts) == len(references)
    whole = metric_of("test/bleu").measure(items.counts.sum(0, keepdims=True))
    assert whole[0] == pytest.approx(bleu(outputs, references, resamples=0).value)
    assert RunItems().of([run.path], "test/bleu-long") == []  # own files have no parts


@pytest.mark.parametrize(
    ("task", "changes"),
    [
        ("sva", {}),
        ("parse", {}),
        ("nmt", {}),
        ("style", {"decoding": {"sentence_bleu": True, "sentence_bleu_nltk": True}}),
        ("lm", {"decoding": {"characters": True}}),
    ],
)
def test_every_score_is_computed_again_from_few_bytes(task, changes, tmp_path):
    run = run_of(run_experiment(configured(task, tmp_path / "corpus", changes), tmp_path / "runs"))
    scores = {
        name
        for name in run.metrics()
        if name.startswith("test/") and "-of-" not in name and not name.endswith("per_second")
    }
    items = items_of(run)
    assert items.keys() == scores
    links = {link.name: link for link in verify_run(run)}
    assert links["scores"] == Link(
        "scores", "intact", f"{len(scores)} of {counted(len(scores), 'score')} recomputed, equal"
    )


def test_equal_counts_are_kept_once_and_found_by_each_name(tmp_path):
    run = run_of(run_experiment(configured("parse", tmp_path / "corpus"), tmp_path / "runs"))
    items = items_of(run)
    assert items["test/las"] == {"same": "test/uas"}
    whole = RunItems().of([run.path], "test/las")[0].counts
    (run.path / ITEMS).write_text(json.dumps(items))
    assert np.array_equal(RunItems().of([run.path], "test/las")[0].counts, whole)
    (run.path / ITEMS).write_text(json.dumps({"test/las": {"same": "test/nothing"}}))
    assert RunItems().of([run.path], "test/las") == []


def test_counts_of_a_thousand_translations_take_few_bytes():
    draw = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(300)])
    references = [" ".join(draw.choice(words, draw.integers(5, 20))) for _ in range(1000)]
    outputs = [" ".join(word for word in line.split() if draw.random() < 0.8) for line in references]
    counts = [function(outputs, references) for function in (bleu_counts, chrf_counts, nltk_counts)]
    texts = [packed(Items(values, "")) for values in counts]
    assert len(json.dumps(texts)) < 30_000
    assert all(np.array_equal(unpacked(text).counts, values) for text, values in zip(texts, counts, strict=True))


def test_version_of_a_metric_that_names_the_task_is_in_the_signature(tmp_path, monkeypatch):
    run = Run.create(tmp_path, "nmt-files-dense-1-0123456789ab", "task: nmt\n")
    run.predictions.mkdir()
    (run.predictions / "test.txt").write_text("a b c\nd\n")
    signatures = []
    for version in (1, 2):
        facts = {"measure": lambda sums: sums[:, 0] / sums[:, 1], "read_items": of_lengths, "tasks": ("nmt",)}
        monkeypatch.setitem(METRICS._registered, "length", Metric("length", version=version, **facts))
        computed = {f"test/{metric.name}" for metric in metrics_of("nmt")} - {"test/length"}
        scores = _scores_of_items(run, "nmt", "test", "", computed)
        signatures.append(scores["test/length"]["signature"])
    assert signatures == ["items:length", "items:length|version:2"]
