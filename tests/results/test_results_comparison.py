"""Cells against the dense ones, from predictions as evaluations write them; no model is trained."""

import pytest
from tiny_experiments import configured

from phmrun.config import to_yaml
from phmrun.ledger import Run, State
from phmrun.ledger.listing import recorded_run
from phmrun.metric import metric_of
from phmrun.metrics import bleu
from phmrun.metrics.parsing import attachment_scores
from phmrun.results.comparison import differences
from phmrun.results.entries import Entry
from phmrun.results.items import RunItems
from phmrun.results.table import score_headings, tabulate
from phmrun.statistics.verdict import Verdict
from phmrun.text import conllu

PHM = {"layer": {"structure": "phm", "n": 2}}


@pytest.fixture
def made(tmp_path):
    """A run of a task's small experiment whose predictions and score are given."""

    def make(task, name, score, value, layer, predictions, ending):
        config = configured(task, tmp_path / task, layer)
        run = Run.create(tmp_path / "runs", f"{task}-{name}-0123456789ab", to_yaml(config))
        run.predictions.mkdir()
        (run.predictions / f"test.{ending}").write_text(predictions)
        run.add_metrics({score: {"value": value, "signature": "x"}})
        run.set_state(State.DONE)
        return Entry({"layer": name}, config.model_dump(mode="json"), recorded_run(run.path))

    return make


def table(entries):
    return tabulate(entries, ["layer"], score_headings(entries, [], []))


def measured(entry, score):
    (items,) = RunItems().of([entry.run], score)
    return float(metric_of(score).measure(items.counts.sum(axis=0, keepdims=True))[0])


def test_translations(made, tmp_path):
    configured("nmt", tmp_path / "nmt")
    references = (tmp_path / "nmt" / "test.bb").read_text().splitlines()
    bad = [" ".join(reversed(line.split())) for line in references]
    value = bleu(bad, references, resamples=0).value
    entries = [
        made("nmt", "dense", "test/bleu", 100.0, {}, "\n".join(references) + "\n", "txt"),
        made("nmt", "same", "test/bleu", 100.0, PHM, "\n".join(references) + "\n", "txt"),
        made("nmt", "worse", "test/bleu", value, PHM, "\n".join(bad) + "\n", "txt"),
    ]
    assert measured(entries[2], "test/bleu") == pytest.approx(value)
    actual = differences(table(entries))
    assert set(actual) == {(1, 0), (2, 0)}  # the dense cell itself is compared with nothing
    same, worse = actual[1, 0].judgement, actual[2, 0].judgement
    assert same.over_items == (0.0, 0.0)
    assert worse.over_items[0] < value - 100 < worse.over_items[1] < 0
    assert (worse.verdict, worse.reason) == (Verdict.UNDECIDED, "a single seed has no spread over training")


def test_trees(made, tmp_path):
    configured("parse", tmp_path / "parse")
    gold = conllu.load(tmp_path / "parse" / "test.conllu")
    flat = [item.with_parse([0] + [1] * (len(item) - 1), ["root"] + ["dep"] * (len(item) - 1)) for item in gold]
    scores = attachment_scores(gold, flat)
    entries = [
        made("parse", "dense", "test/las", 100.0, {}, conllu.dumps(gold), "conllu"),
        made("parse", "phm", "test/las", scores["las"].value, PHM, conllu.dumps(flat), "conllu"),
    ]
    assert measured(entries[1], "test/las") == pytest.approx(scores["las"].value)
    assert measured(entries[1], "test/uas") == pytest.approx(scores["uas"].value)
    (actual,) = differences(table(entries)).values()
    low, high = actual.judgement.over_items
    assert (low + high) / 2 == pytest.approx(scores["las"].value - 100)
