"""Order of the packages: every import points down, and nothing imports itself in a circle."""

from pathlib import Path

import pytest

from benchmarks.imports import ORDER, cycles, module_graph, modules, package_graph, upward

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def graph():
    return module_graph(modules(ROOT))


def test_no_cycle_between_modules(graph):
    assert cycles(graph) == []


def test_no_cycle_between_packages(graph):
    assert cycles(package_graph(graph)) == []


def test_every_import_points_down(graph):
    assert upward(graph) == []


def test_tasks_do_not_import_each_other(graph):
    tasks = {name: name.split(".")[2] for name in graph if name.startswith("phmrun.tasks.")}
    assert [
        (name, target) for name in tasks for target in graph[name] if tasks.get(target, tasks[name]) != tasks[name]
    ] == []


def test_contributing_quotes_the_whole_order():
    assert f"```text\n{ORDER}```" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
