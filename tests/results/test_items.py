"""Per-item values of a score, written to a small file and read back."""

import json
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays
from tiny_experiments import configured, run_experiment, run_of

from phmrun.errors import counted
from phmrun.families.sequence_to_sequence.items import read_outputs
from phmrun.ledger.record import ITEMS
from phmrun.metric import metric_of
from phmrun.metrics import bleu
from phmrun.metrics.items import _column_of, _text_of, unpacked
from phmrun.results.items import RunItems, items_of
from phmrun.results.verification import Link, verify_run


@given(arrays(np.int64, st.integers(0, 300), elements=st.integers(0, 2**20)))
def test_columns_come_back(column):
    assert np.array_equal(_column_of(_text_of(column.astype(float)), len(column)), column)


@pytest.mark.parametrize("text", ["", "0:", "64:AAAA", "1:!", "1:AAAA", "x:AAAA", _text_of(np.ones(9))])
def test_damaged_columns_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        unpacked({"items": 3, "mark": "", "file": "", "columns": [text]})


def test_translations_may_have_a_carriage_return(tmp_path):
    (tmp_path / "test.txt").write_bytes(b"a\rb\nc\n")
    assert read_outputs(SimpleNamespace(predictions=tmp_path), "test") == ["a\rb", "c"]


def test_parts_of_translations_have_items_too(shared_run):
    run = shared_run("nmt")
    references = (run.path.parents[1] / "corpus/test.bb").read_text().splitlines()
    outputs = (run.predictions / "test.txt").read_text().splitlines()
    (items,) = RunItems().of([run], "test/bleu")
    assert len(items.counts) == len(references)
    whole = metric_of("test/bleu").measure(items.counts.sum(0, keepdims=True))
    assert whole[0] == pytest.approx(bleu(outputs, references, resamples=0).value)
    assert RunItems().of([run], "test/bleu-long") == []  # own files have no parts


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
def test_every_score_is_computed_again_from_few_bytes(task, changes, tiny_run, tmp_path):
    if changes:
        run = run_of(run_experiment(configured(task, tmp_path / "corpus", changes), tmp_path / "runs"))
    else:
        run = tiny_run(task)
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


def test_equal_counts_are_kept_once_and_found_by_each_name(tiny_run):
    run = tiny_run("parse")
    items = items_of(run)
    assert items["test/las"] == {"same": "test/uas"}
    whole = RunItems().of([run], "test/las")[0].counts
    (run.path / ITEMS).write_text(json.dumps(items))
    assert np.array_equal(RunItems().of([run], "test/las")[0].counts, whole)
    (run.path / ITEMS).write_text(json.dumps({"test/las": {"same": "test/nothing"}}))
    assert RunItems().of([run], "test/las") == []
