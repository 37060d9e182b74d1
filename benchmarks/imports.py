"""Import graph of phmrun: the order of its packages, cycles, and imports that point up.

Every import counts: at the top of a file, inside a function, under ``TYPE_CHECKING``, and by name, as in
``"phmrun.tasks.lm.data:build_data"``.
``python benchmarks/imports.py [ROOT]`` prints the floors of the graph, and every fault.
"""

import argparse
import ast
import re
from collections.abc import Mapping
from pathlib import Path

ORDER = """\
cli
experiments
report
sweeps
results
papers
bench
tasks
families
exchange
engine
models
decoding
metrics
datasets
text
layers
kernels
ledger
config
statistics
task
metric plugin_errors
registry progress checksums
files
documents
errors escaping grouping section shares cores
"""
"""Packages from top to bottom. A package imports packages of lower lines only; those of one line are independent."""

Graph = Mapping[str, Mapping[str, int]]
"""For each node the nodes that it imports, with the line of the first import."""

BY_NAME = re.compile(r"(phmrun(?:\.\w+)+):\w+")


def modules(root: Path) -> dict[str, Path]:
    """Files of a checkout's ``phmrun/`` and ``tasks/`` by module name."""
    paths: dict[str, Path] = {}
    for top in ("phmrun", "tasks"):
        for path in sorted((root / top).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            parts = parts if top == "phmrun" else ("phmrun", *parts)
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def module_graph(paths: Mapping[str, Path]) -> dict[str, dict[str, int]]:
    """Imports between modules; ``from package import name`` is an import of the module of that name if it exists."""
    graph: dict[str, dict[str, int]] = {name: {} for name in paths}
    for name, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = []
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                members = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [member if member in paths else str(node.module) for member in members]
            elif isinstance(node, ast.Constant) and (match := BY_NAME.fullmatch(str(node.value))):
                targets = [match[1]]
            for target in targets:
                if target in paths and target != name:
                    graph[name].setdefault(target, node.lineno)  # type: ignore[attr-defined]
    return graph


def package_of(module: str) -> str:
    """Package of a module: the first name below ``phmrun``; of the two files above all packages, ``cli``."""
    parts = module.split(".")
    return "cli" if len(parts) == 1 or parts[1] == "__main__" else parts[1]


def package_graph(graph: Graph) -> dict[str, dict[str, int]]:
    """Imports between packages; a package does not import itself."""
    packages: dict[str, dict[str, int]] = {package_of(name): {} for name in graph}
    for name, targets in graph.items():
        for target, line in targets.items():
            if package_of(name) != package_of(target):
                packages[package_of(name)].setdefault(package_of(target), line)
    return packages


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of nodes that reach each other (strongly connected components of more than one node)."""
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted({name, *(other for other in reached[name] if name in reached[other])}))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph[waiting.pop()]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def upward(graph: Graph) -> list[str]:
    """Imports between packages that do not point down :data:`ORDER`, each with file and line."""
    level = {name: number for number, line in enumerate(ORDER.splitlines()) for name in line.split()}
    faults = [f"{package_of(name)} is missing in ORDER" for name in graph if package_of(name) not in level]
    for name, targets in graph.items():
        for target, line in targets.items():
            upper, lower = package_of(name), package_of(target)
            if {upper, lower} <= level.keys() and upper != lower and level[upper] >= level[lower]:
                faults.append(f"{name}:{line} imports {target}: {upper} is not above {lower}")
    return faults


def floors(graph: Graph) -> list[list[str]]:
    """Packages by the length of their longest chain of imports; the first floor imports nothing. Needs no cycle."""
    heights: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in heights:
            heights[name] = max((height(target) + 1 for target in graph[name]), default=0)
        return heights[name]

    levels: list[list[str]] = [[] for _ in range(max(map(height, graph)) + 1)]
    for name in sorted(graph):
        levels[height(name)].append(name)
    return levels


def main() -> None:
    """Print cycles, imports that point up, and the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    graph = module_graph(modules(parser.parse_args().root))
    packages = package_graph(graph)
    print(f"{len(graph)} modules, {len(packages)} packages")
    for name, cyclic in (("modules", cycles(graph)), ("packages", cycles(packages))):
        print(f"cycles of {name}: {len(cyclic)}", *cyclic, sep="\n  ")
    faults = upward(graph)
    print(f"imports that point up: {len(faults)}", *faults, sep="\n  ")
    if not cycles(packages):
        levels = floors(packages)
        print(f"floors: {len(levels)}")
        for number, names in reversed(list(enumerate(levels, 1))):
            print(f"{number:>4}  {' '.join(names)}")


if __name__ == "__main__":
    main()
