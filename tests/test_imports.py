"""Order of the packages: every import points down, and nothing imports itself in a circle."""

from pathlib import Path

import pytest

from benchmarks.imports import ORDER, cycles, floors, module_graph, modules, package_graph, upward

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


def package(root: Path, **sources: str) -> Path:
    for name, source in sources.items():
        path = root / "phmrun" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return root


def test_imports_in_functions_and_for_types_close_a_cycle(tmp_path):
    late = "def load():\n    from phmrun.text import store\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from phmrun.engine.fit import Fit\n"
    graph = module_graph(modules(package(tmp_path, engine__fit=late, text__store=typed)))
    assert cycles(graph) == [["phmrun.engine.fit", "phmrun.text.store"]]
    assert cycles(package_graph(graph)) == [["engine", "text"]]
    assert upward(graph) == ["phmrun.text.store:3 imports phmrun.engine.fit: text is not above engine"]


def test_packages_of_one_line_and_unlisted_ones_are_faults(tmp_path):
    root = package(tmp_path, checksums__a="import phmrun.progress.b\n", progress__b="", helpers__more="")
    assert upward(module_graph(modules(root))) == [
        "helpers is missing in ORDER",
        "phmrun.checksums.a:1 imports phmrun.progress.b: checksums is not above progress",
    ]


def test_floors_are_the_longest_chains_of_imports(tmp_path):
    root = package(tmp_path, cli__app="import phmrun.text.a\nimport phmrun.files\n", text__a="import phmrun.files\n")
    (root / "phmrun" / "files.py").write_text("", encoding="utf-8")
    assert floors(package_graph(module_graph(modules(root)))) == [["files"], ["text"], ["cli"]]


def test_names_in_strings_count_as_imports(tmp_path):
    root = package(tmp_path, tasks__mine='data = "phmrun.engine.data:build"\n', engine__data="")
    assert module_graph(modules(root))["phmrun.tasks.mine"] == {"phmrun.engine.data": 1}
