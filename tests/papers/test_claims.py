"""The papers' claims: each names cells that are there, and is decided as its words say."""

import math
from pathlib import Path
from statistics import fmean

import pytest

from phmrun.errors import PhmrunError
from phmrun.papers import paper_names
from phmrun.papers.claims import examine
from phmrun.report.reduced_claims import ReducedClaim, check, papers_claims
from phmrun.results.row_comparison import RowComparison
from phmrun.statistics.verdict import Question, judge
from phmrun.sweeps.paper_claims import Claim, Outcome, load_claims, outcome_of

BASE = [30.0, 30.2, 30.1, 29.9]


def claim(kind, **more):
    return Claim(
        name="x", says="X.", table="5", row="PHM (n = 4)", against="Transformer", column="BLEU", claim=kind, **more
    )


def said(kind, ours, lower=False, **more):
    judgement = judge({"row": ours}, BASE, Question(lower_is_better=lower))["row"]
    return outcome_of(claim(kind, **more), judgement, (len(ours), 4), lower_is_better=lower)[0]


def test_every_paper_has_claims_on_cells_that_exist():
    files = load_claims()
    assert [file.paper for file in files] == paper_names()
    for file in files:
        names = [claim.name for claim in file.claims]
        assert len(set(names)) == len(names)


def test_outcomes():
    up, down, same = [32.0, 32.1, 31.9, 32.2], [28.0, 28.2, 27.9, 28.1], [30.1, 30.0, 30.2, 29.9]
    assert [said("better", item) for item in (up, down, same)] == [Outcome.HOLDS, Outcome.FAILS, Outcome.UNDECIDED]
    assert [said("worse", item) for item in (up, down, same)] == [Outcome.FAILS, Outcome.HOLDS, Outcome.UNDECIDED]
    assert [said("close", item) for item in (up, down, same)] == [Outcome.HOLDS, Outcome.FAILS, Outcome.HOLDS]
    assert said("close", [28.0, 32.0, 29.0, 31.0]) is Outcome.UNDECIDED
    assert said("better", down, lower=True) is Outcome.HOLDS  # perplexity
    assert said("close", up, lower=True) is Outcome.FAILS
    assert outcome_of(claim("better"), None, (1, 1), lower_is_better=False)[0] is Outcome.UNDECIDED


def test_what_tables_do_not_decide_claims_do_not_either():
    assert said("worse", [28.0, 28.2, math.nan, 28.1]) is Outcome.UNDECIDED  # diverged
    assert said("worse", [math.nan] * 4) is Outcome.UNTRAINED
    even = judge({"row": [91.0, 91.0]}, [90.0, 90.0], Question())
    assert outcome_of(claim("better"), even["row"], (2, 2), lower_is_better=False)[0] is Outcome.UNDECIDED
    floored = judge({"row": [30.1, 30.0, 30.2, 29.9]}, BASE, Question(), floors=[[40.0]])["row"]
    assert outcome_of(claim("close"), floored, (4, 4), lower_is_better=False)[0] is Outcome.UNTRAINED


def test_reduced_settings_never_decide_the_papers_claim():
    judgement = judge({"row": [32.0, 32.1, 31.9, 32.2]}, BASE, Question())["row"]

    def measured(file, _):
        return (judgement, (4, 4)) if file.endswith("-small.yaml") else (None, (0, 0))

    actual = examine("phm", claim("better"), measured, lambda *_: 0.0)
    assert (actual.outcome, bool(actual.reduced), actual.seeds) == (Outcome.HOLDS, True, (4, 4))
    assert actual.printed == pytest.approx(0.77)
    assert "table5-small.yaml" in actual.command
    none = examine("phm", claim("better"), lambda *_: (None, (0, 0)), lambda *_: 0.0)
    assert (none.outcome, none.why) == (Outcome.NOT_RUN, "no run is done")
    assert none.command == (
        "phmrun sweep configs/papers/phm/table5.yaml --only 'row=PHM (n = 4)' --only 'row=Transformer' --seeds 5"
    )


def test_sizes_and_what_no_run_has():
    files = {file.paper: file for file in load_claims()}
    size = next(claim for claim in files["phm"].claims if claim.claim == "size")
    assert examine("phm", size, lambda *_: (None, (0, 0)), lambda *_: 0.25).outcome is Outcome.HOLDS
    assert examine("phm", size, lambda *_: (None, (0, 0)), lambda *_: 0.4).outcome is Outcome.FAILS
    time = next(claim for claim in files["phm"].claims if claim.name == "time")
    assert examine("phm", time, lambda *_: (None, (0, 0)), lambda *_: 0.0).outcome is Outcome.UNTESTABLE


def test_an_unknown_paper():
    with pytest.raises(PhmrunError, match="there is no paper 'phn'"):
        load_claims("phn")


class Sweep:
    """Stands for the answer of a sweep: dense, and a row with these scores."""

    score, names = "test/accuracy", ["dense", "phm n=8"]

    def __init__(self, row, dense=(90.0, 90.2, 90.1, 89.9), *, floor=50.0, withdrawn=""):
        self.rows, self.reason = {"": dense, "dense": dense, "phm n=8": row}, withdrawn
        self.floor = floor

    def has(self, name):
        return name in self.rows

    def withdrawn(self, name):
        return self.reason if name == "phm n=8" else ""

    def comparison(self, row, against):
        question = Question(0.5)
        judged = judge({"x": self.rows[row]}, self.rows[against], question, floors=[[self.floor]])["x"]
        return RowComparison(judged, question, 1)


def of_sweep(sweep, **more):
    asked = ReducedClaim(claim="phm/sva-n8", sweep="agreement", row="phm n=8", reduction="small", **more)
    return check(asked, papers_claims(), {"agreement": sweep}, Path("questions.yaml"))


def test_a_reduced_claim_has_the_outcome_of_the_sweeps_own_verdict():
    up, down, same = [92.0, 92.1, 91.9, 92.2], [88.0, 88.2, 87.9, 88.1], [90.1, 90.0, 90.2, 89.9]
    outcomes = [of_sweep(Sweep(row)).outcome for row in (up, down, same)]
    assert outcomes == [Outcome.HOLDS, Outcome.FAILS, Outcome.UNDECIDED]  # the claim: better than dense
    checked = of_sweep(Sweep(up), against="dense")
    assert checked.difference.value == pytest.approx(fmean(up) - 90.05)
    assert (checked.claim.name, checked.paper.cite, checked.seeds) == ("sva-n8", "Zhang et al. 2021", (4, 4))
    assert of_sweep(Sweep([90.0])).outcome is Outcome.UNDECIDED  # a single seed
    assert of_sweep(Sweep([90.0])).why == "a single seed has no spread over training"
    assert of_sweep(Sweep(same, floor=95.0)).outcome is Outcome.UNTRAINED
    withdrawn = of_sweep(Sweep(down, withdrawn="other items"))
    assert (withdrawn.outcome, withdrawn.why, withdrawn.difference) == (Outcome.WITHDRAWN, "other items", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": "phm/sva-n9"}, "there is no trained claim 'phm/sva-n9'"),
        ({"claim": "phm/nmt-size"}, "there is no trained claim 'phm/nmt-size'"),
        ({"sweep": "agrement"}, "there is no sweep 'agrement'"),
        ({"against": "monarch"}, "names a row that the sweep agreement lacks: monarch"),
    ],
)
def test_a_reduced_claim_on_nothing_is_refused(change, message):
    values = {"claim": "phm/sva-n8", "sweep": "agreement", "row": "phm n=8", "reduction": "small"} | change
    with pytest.raises(PhmrunError, match=message):
        check(ReducedClaim(**values), papers_claims(), {"agreement": Sweep([1.0])}, Path("questions.yaml"))
