"""The papers' claims: each names cells that are there, and is decided as its words say."""

import pytest

from phmrun.errors import PhmrunError
from phmrun.papers import paper_names
from phmrun.papers.claims import Claim, Outcome, examine, load_claims, outcome_of
from phmrun.statistics.welch import Design, difference

BASE = [30.0, 30.2, 30.1, 29.9]


def claim(kind, **more):
    return Claim(
        name="x", says="X.", table="5", row="PHM (n = 4)", against="Transformer", column="BLEU", claim=kind, **more
    )


def said(kind, ours, lower=False, **more):
    comparison = difference(ours, BASE, Design())
    return outcome_of(claim(kind, **more), comparison, (len(ours), 4), lower_is_better=lower)[0]


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


def test_reduced_settings_never_decide_the_papers_claim():
    comparison = difference([32.0, 32.1, 31.9, 32.2], BASE, Design())

    def measured(file, _):
        return (comparison, (4, 4)) if file.endswith("-small.yaml") else (None, (0, 0))

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
