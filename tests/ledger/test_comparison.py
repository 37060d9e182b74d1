"""Runs beside each other, and runs as one file."""

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.listing import configurations, curves, figures, scores

CONFIG = "task: nmt\nseed: {seed}\nmodel:\n  width: 16\nlayer: {layer}\n"


@pytest.fixture
def pair(tmp_path):
    created = []
    for seed, layer, bleu in ((1, "{structure: dense}", 30.0), (2, "{structure: phm, n: 4}", 29.0)):
        run = Run.create(tmp_path / "runs", f"nmt-x-{seed}-0123456789a{seed}", CONFIG.format(seed=seed, layer=layer))
        run.add_metrics({"test/bleu": {"value": bleu, "signature": "a"}})
        run.add_metrics({"test/chrf": {"value": bleu, "signature": f"s{seed}"}})
        for step in (10, 20):
            run.history.append({"step": step * seed, "val/loss": step / 10, "train/loss": 1.0})
        run.set_state(State.DONE)
        created.append(run)
    created[0].add_metrics({"dev/bleu": 31})
    return created


def test_only_what_differs(pair):
    assert configurations(pair) == {"seed": (1, 2), "layer.structure": ("dense", "phm"), "layer.n": (None, 4)}
    assert configurations([pair[0], pair[0]]) == {}


def test_scores_and_whether_they_compare(pair):
    assert scores(pair) == {
        "test/bleu": {"values": (30.0, 29.0), "alike": True},
        "test/chrf": {"values": (30.0, 29.0), "alike": False},
        "dev/bleu": {"values": (31.0, None), "alike": True},
    }


def test_curves_by_step(pair):
    assert figures(pair) == ["val/loss"]
    assert curves(pair, "val/loss") == [(10, [1.0, None]), (20, [2.0, 1.0]), (40, [None, 2.0])]
    pair[0].history.append({"step": 30, "val/accuracy": 0.455})
    assert curves(pair, "val/accuracy") == [(30, [pytest.approx(45.5), None])]
