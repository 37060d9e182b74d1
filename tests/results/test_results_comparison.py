"""Cells against the dense ones, from predictions as evaluations write them; no model is trained."""

import random

import pytest
from tiny_experiments import configured

from phmrun.config import to_yaml
from phmrun.ledger import Run, State
from phmrun.ledger.listing import summarise
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
        run.update_metrics(score, {"value": value, "signature": "x"})
        run.set_state(State.DONE)
        return Entry({"layer": name}, config.model_dump(mode="json"), summarise(run.path))

    return make


def table(entries):
    return tabulate(entries, ["layer"], score_headings(entries, [], []))


def measured(entry, score):
    (items,) = RunItems().of([entry.run.path], score)
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


def labels(right):
    rows = "".join(f"{'a' if ok else 'b'}\t0.9\ta\t\n" for ok in right)
    return f"predicted\tprobability\tlabel\tpart\n{rows}"


def test_labels(made):
    draw = random.Random(1)
    right = {name: [draw.random() < share for _ in range(200)] for name, share in (("dense", 0.9), ("phm", 0.6))}
    shares = {name: 100 * sum(item) / 200 for name, item in right.items()}
    layers = {"dense": {}, "phm": PHM}
    entries = [made("sva", n, "test/accuracy", shares[n], layers[n], labels(right[n]), "tsv") for n in right]
    assert measured(entries[1], "test/accuracy") == pytest.approx(shares["phm"])
    (actual,) = differences(table(entries)).values()
    low, high = actual.judgement.over_items
    assert (low + high) / 2 == pytest.approx(shares["phm"] - shares["dense"])
    assert high < 0


def test_labels_of_a_part(made):
    rows = "".join(f"{'a' if place % 3 else 'b'}\t1\ta\t{'odd' if place % 2 else 'even'}\n" for place in range(60))
    first = made("sva", "dense", "test/accuracy-odd", 0.0, {}, f"predicted\tprobability\tlabel\tpart\n{rows}", "tsv")
    right = [place % 3 > 0 for place in range(60) if place % 2]
    (counts,) = RunItems().of([first.run.path], "test/accuracy-odd")
    assert counts.counts[:, 0].tolist() == [float(item) for item in right]
    assert differences(table([first, made("sva", "phm", "test/accuracy-of-majority", 1.0, PHM, rows, "tsv")])) == {}


def test_trees(made, tmp_path):
    configured("parse", tmp_path / "parse")
    gold = conllu.load(tmp_path / "parse" / "test.conllu")
    flat = [item.with_parse([0] + [1] * (len(item) - 1), ["root"] + ["dep"] * (len(item) - 1)) for item in gold]
    scores = attachment_scores(gold, flat, resamples=0)
    entries = [
        made("parse", "dense", "test/las", 100.0, {}, conllu.dumps(gold), "conllu"),
        made("parse", "phm", "test/las", scores["las"].value, PHM, conllu.dumps(flat), "conllu"),
    ]
    assert measured(entries[1], "test/las") == pytest.approx(scores["las"].value)
    assert measured(entries[1], "test/uas") == pytest.approx(scores["uas"].value)
    (actual,) = differences(table(entries)).values()
    low, high = actual.judgement.over_items
    assert (low + high) / 2 == pytest.approx(scores["las"].value - 100)


def test_what_cannot_be_compared_is_left_alone(made):
    first = made("sva", "dense", "test/accuracy", 50.0, {}, labels([True, False]), "tsv")
    other = made("sva", "phm", "test/accuracy", 50.0, PHM, labels([True, False, True]), "tsv")
    assert differences(table([first, other])) == {}  # of another number of items
    assert differences(table([other])) == {}  # nothing dense
    asked_else = made(
        "sva", "asked", "test/accuracy", 50.0, PHM, labels([True, False]).replace("\ta\t", "\tb\t"), "tsv"
    )
    assert differences(table([first, asked_else])) == {}  # as many items of another file
    (other.run.path / "predictions/test.tsv").unlink()
    (lost,) = differences(table([first, other])).values()
    assert (lost.verdict, lost.judgement.over_items) == (Verdict.UNDECIDED, None)  # one seed, and no items
    loss = made("sva", "loss", "test/loss", 1.0, PHM, labels([True, False]), "tsv")
    assert differences(table([first, loss])) == {}
