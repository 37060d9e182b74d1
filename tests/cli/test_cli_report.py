"""``phmrun report`` and other verbs on runs of two tasks, which nobody trained."""

import json

import pytest

from phmrun.ledger import Run, State


@pytest.fixture
def names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for task, size, score in (("sva", 900, 80.0), ("nli", 100, 90.0)):
        run = Run.create(tmp_path / "runs", f"{task}-x-2.1-dense-1-000000000001", f"task: {task}\n")
        run.add_metrics({"test/accuracy": {"value": score, "signature": f"labels:a+b|data:{task}"}})
        run.write_parameters({"total": size})
        run.set_state(State.DONE)
    return [path.name for path in sorted((tmp_path / "runs").iterdir(), reverse=True)]


def test_runs_of_two_tasks_have_their_own_sizes_and_no_common_plot(phmrun, names, tmp_path):
    assert phmrun("report", *names).code == 0
    assert "is 80.00, of dense with 900 parameters;" in (tmp_path / "report.md").read_text()
    table = json.loads(phmrun("table", *names, "--json").out)
    assert [cell["parameters"] for cell in table["cells"]] == [900, 100]
    assert "test/accuracy is of several test sets" in phmrun("plot", "pareto", *names).err


def test_files_are_named_after_the_whole_run(phmrun, names):
    assert phmrun("report", names[0]).out.startswith(f"{names[0]}.html\n")
    assert phmrun("plot", "pareto", f"runs/{names[0]}").out == f"pareto-{names[0]}.png\n"
