"""Verdicts of `phmrun decide` on public results, recomputed by SciPy."""

import csv
from pathlib import Path

import numpy as np
import pytest

from phmrun.statistics.long_form import read_rows
from phmrun.statistics.referee import decide
from phmrun.statistics.welch import CAUTION

FOLDER = Path(__file__).parents[2] / "examples" / "decide"


def scores(file: str, system: str, metric: str) -> list[float]:
    with (FOLDER / file).open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return [float(row["value"]) for row in rows if (row["system"], row["metric"]) == (system, metric)]


@pytest.mark.parametrize(
    ("file", "metric", "reference", "system", "better"),
    [
        ("speedrun-multi-token.csv", "seconds", "previous", "multi-token", True),
        ("speedrun-multi-token.csv", "loss", "tied-head", "multi-token", False),
        ("speedrun-custom-sizing.csv", "seconds", "previous", "custom-sizing", True),
    ],
)
def test_verdicts_on_speedruns_are_scipys(file, metric, reference, system, better):
    stats = pytest.importorskip("scipy.stats")
    trivial = "target" if metric == "loss" else None
    rows = read_rows([str(FOLDER / file)])
    decision = decide(rows, reference=reference, metric=metric, trivial=trivial, lower_is_better=True)
    judgement = decision.judgements[system]
    ours, theirs = scores(file, system, metric), scores(file, reference, metric)
    welch = stats.ttest_ind(ours, theirs, equal_var=False)
    smallest = min(len(ours), len(theirs)) - 1
    freedom = 1 / ((1 - CAUTION) / welch.df + CAUTION / smallest)
    interval = welch.statistic + np.array([-1, 1]) * stats.t.ppf(0.975, freedom)
    error = (np.mean(ours) - np.mean(theirs)) / welch.statistic
    assert judgement.difference.p == pytest.approx(2 * stats.t.sf(abs(welch.statistic), freedom), rel=1e-6)
    assert [judgement.difference.low, judgement.difference.high] == pytest.approx(interval * error, rel=1e-6)
    assert (judgement.verdict, judgement.better) == ("different", better)


def test_a_record_passes_its_target():
    stats = pytest.importorskip("scipy.stats")
    rows = read_rows([str(FOLDER / "speedrun-multi-token.csv")])
    decision = decide(rows, reference="tied-head", metric="loss", trivial="target", lower_is_better=True)
    losses = scores("speedrun-multi-token.csv", "multi-token", "loss")
    assert stats.ttest_1samp(losses, 3.28, alternative="less").pvalue == pytest.approx(0.0003, abs=5e-5)  # as claimed
    assert decision.trained
    assert decision.judgements["multi-token"].trained


def test_one_seed_decides_nothing():
    decision = decide(
        read_rows([str(FOLDER / "peft-metamathqa.csv")]), reference="lora-rank32", metric="accuracy", margin=0.01
    )
    assert {judgement.verdict for judgement in decision.judgements.values()} == {"undecided"}
