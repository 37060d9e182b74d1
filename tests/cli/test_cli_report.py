"""``phmrun report`` and other verbs on runs of two tasks, which nobody trained."""

import json

import pytest

from phmrun.ledger import Run, State


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    created = []
    for task, size, score in (("sva", 900, 80.0), ("nli", 100, 90.0)):
        run = Run.create(tmp_path / "runs", f"{task}-x-2.1-dense-1-00000000000{len(created)}", f"task: {task}\n")
        run.write_parameters({"total": size})
        run.add_metrics({"test/accuracy": {"value": score, "signature": f"labels:a+b|data:{task}"}})
        run.set_state(State.RUNNING, about={"task": task, "parameters": size})
        run.set_state(State.DONE)
        created.append(run.id)
    return created


def test_sizes_are_those_of_the_network_with_the_score(phmrun, names, tmp_path):
    assert phmrun("report", *names, "--out", "two.html").code == 0
    assert "is 80.00, of dense with 900 parameters;" in (tmp_path / "two.md").read_text()
    cells = json.loads(phmrun("table", *names, "--json").out)["cells"]
    assert [cell["parameters"] for cell in cells] == [900, 100]


def test_scores_of_several_test_sets_are_not_plotted_together(phmrun, names, tmp_path):
    refused = phmrun("plot", "pareto", *names, "--out", "a.svg")
    assert (refused.code, refused.out) == (2, "")
    assert "the scores test/accuracy are of several test sets" in refused.err
    assert phmrun("plot", "pareto", names[0], "--out", "a.svg").code == 0
