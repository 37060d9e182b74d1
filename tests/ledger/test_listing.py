"""Listings: filters, order, damaged directories, many runs."""

import json
import shutil
from pathlib import Path

import pytest

from phmrun.errors import PhmrunError
from phmrun.ledger import State
from phmrun.ledger.listing import list_runs, score_names, sort, unchanged, where


def make(runs_dir: Path, name: str, *, bleu: float | None = None, state: State = State.DONE, **about: object) -> None:
    path = runs_dir / name
    path.mkdir(parents=True)
    (path / "status.json").write_text(json.dumps({"state": state.value, "step": 5, "about": about}))
    if bleu is not None:
        (path / "metrics.json").write_text(json.dumps({"test/bleu": {"value": bleu, "signature": "s"}}))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make(tmp_path, "a", bleu=20.0, task="nmt", layer="dense", data="builtin", parameters=900)
    make(tmp_path, "b", bleu=30.0, task="nmt", layer="phm n=4", data="multi30k", parameters=300)
    make(tmp_path, "c", task="nmt", layer="phm n=8", data="multi30k", state=State.FAILED)
    make(tmp_path, "d", bleu=25.0, task="style", layer="phm n=8", data="builtin", state=State.QUEUED)
    return tmp_path


def names(found: list) -> str:
    return "".join(run.id for run in found)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], "abcd"),
        (["task=style"], "d"),
        (["layer=phm n=8", "task=nmt"], "c"),
        (["data=multi30k"], "bc"),
        (["state=failed"], "c"),
        (["state=damaged"], ""),
    ],
)
def test_runs_are_filtered_by_their_facts(runs: Path, texts: list[str], expected: str) -> None:
    assert names(where(list_runs(runs), texts)) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [("name", "abcd"), ("-name", "dcba"), ("test/bleu", "adbc"), ("-test/bleu", "bdac"), ("parameters", "bacd")],
)
def test_runs_are_sorted_by_a_column(runs: Path, key: str, expected: str) -> None:
    assert names(sort(list_runs(runs), key)) == expected


@pytest.mark.parametrize("garbage", [b"", b"\xff\x00", b"[1]", b'{"state": 3}', b'{"state": "done", "about": 4}'])
def test_damaged_run_is_listed_as_damaged(runs: Path, garbage: bytes) -> None:
    (runs / "b" / "status.json").write_bytes(garbage)
    actual = {run.id: run for run in list_runs(runs)}
    assert actual["b"].state == "damaged"
    assert actual["b"].damage is not None
    assert actual["a"].damage is None
    assert names(where([*actual.values()], ["state=damaged"])) == "b"
    assert names(sort(actual.values(), "step"))[-1] == "b"
    json.dumps([run.to_json() for run in actual.values()])


def test_scores_of_runs_and_their_names(runs: Path) -> None:
    actual = list_runs(runs)
    assert score_names(actual) == ["test/bleu"]
    assert [run.score("test/bleu") for run in actual] == [20.0, 30.0, None, 25.0]


def test_a_comparison_is_no_filter(runs: Path) -> None:
    with pytest.raises(PhmrunError, match="is not of the form key=value"):
        where(list_runs(runs), ["test/bleu=>20"])


def test_unchanged_runs_are_listed_once(runs: Path) -> None:
    with unchanged():
        before = list_runs(runs)
        shutil.rmtree(before[0].path)
        assert list_runs(runs) == before
    assert len(list_runs(runs)) == len(before) - 1
