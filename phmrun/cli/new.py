"""``phmrun new``: files of a new structure, task, network or metric, from working templates."""

import ast
import importlib.util
import keyword
import re
import sys
import tomllib
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, NamedTuple

import typer

from phmrun.cli import console
from phmrun.errors import PhmrunError
from phmrun.files import write_text
from phmrun.registry import METRICS, STRUCTURES, TASKS, Registry, networks

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


class Kind(StrEnum):
    """Kinds of parts that have a template."""

    STRUCTURE = "structure"
    TASK = "task"
    NETWORK = "network"
    METRIC = "metric"


class Recipe(NamedTuple):
    """Files and entry point of a new part.

    Attributes:
        registry: Registry of the part.
        call: Expression for the registry in a plug-in file.
        files: Path in a checkout of phmrun by template; names are in place of ``$name``, ``$module``, ``$Class``.
        value: Value of the entry point.
        first: Command that tries the part.
    """

    registry: Registry
    call: str
    files: dict[str, str]
    value: str
    first: str


RECIPES = {
    Kind.STRUCTURE: Recipe(
        STRUCTURES,
        "STRUCTURES",
        {
            "structure": "phmrun/layers/structures/$module.py",
            "structure_test": "tests/layers/structures/test_$module.py",
        },
        "phmrun.layers.structures.$module:$Class",
        "phmrun layers show $name",
    ),
    Kind.NETWORK: Recipe(
        networks("sva"),
        'networks("sva")',
        {"network": "phmrun/models/$module.py", "network_test": "tests/models/test_$module.py"},
        "phmrun.models.$module:$Class",
        "phmrun train sva --model $name",
    ),
    Kind.METRIC: Recipe(
        METRICS,
        "METRICS",
        {"metric": "phmrun/metrics/$module.py", "metric_test": "tests/metrics/test_$module.py"},
        "phmrun.metrics.$module:$CLASS",
        "phmrun train sva",
    ),
    Kind.TASK: Recipe(
        TASKS,
        "TASKS",
        {
            "task_init": "tasks/$module/__init__.py",
            "task_config": "tasks/$module/config.py",
            "task_data": "tasks/$module/data.py",
            "task_module": "tasks/$module/module.py",
            "task_defaults": "configs/tasks/$name.yaml",
            "task_tiny": "tests/tasks/$module/tiny_$module.py",
            "task_test": "tests/tasks/$module/test_$module.py",
        },
        "phmrun.tasks.$module:TASK",
        "phmrun data formats $name",
    ),
}


def new(
    kind: Annotated[Kind, typer.Argument()],
    name: Annotated[str, typer.Argument()],
) -> None:
    """Write a new structure, task, network or metric with its test: a working template to change.

    In a checkout of phmrun, it writes the files of the package, the entry point and the test. Elsewhere, it writes a
    plug-in file.

    A taken name or an existing file is an error. The paths are printed on standard output, the next commands on
    standard error.

    Args:
        kind: Kind of part.
        name: Name: lower-case letters, digits, hyphens.

    Examples:
        phmrun new structure tiled
        phmrun new task reviews
    """
    recipe = RECIPES[kind]
    if not _NAME.fullmatch(name):
        raise PhmrunError(f"{name!r} is no valid name", valid=["lower-case letters, digits and hyphens: my-structure"])
    if name in recipe.registry:
        raise PhmrunError(f"there is already a {kind} named {name!r}", hint="Choose another name.")
    words = re.split("[-_]", name)
    _require_free(kind, words)
    names = {
        "name": name,
        "module": "_".join(words),
        "title": " ".join(words).capitalize(),
        "Class": "".join(word.capitalize() for word in words),
        "CLASS": "_".join(words).upper(),
    }
    project = Path("pyproject.toml")
    checkout = _is_checkout(project)
    written = _in_package(recipe, names, project) if checkout else _as_plugin(kind, recipe, names)
    for path in written:
        console.stdout().print(str(path), markup=False, soft_wrap=True)
    first = Template(recipe.first).substitute(names)
    advice = f"Next: {first}" if checkout else f"Next: {first} --plugin {written[0]}"
    tests = [str(path) for path in written if path.name.startswith("test_")]
    console.stderr().print(
        "\n".join([advice, *(f"      pytest {path}" for path in tests)]), markup=False, soft_wrap=True
    )


def _require_free(kind: Kind, words: list[str]) -> None:
    """Check that module and class of a new part hide no word of Python, no library, and no import of the template.

    Raises:
        PhmrunError: They do.
    """
    module, class_name = "_".join(words), "".join(word.capitalize() for word in words)
    taken = {module, class_name} & {*keyword.kwlist, *sys.stdlib_module_names}
    spec = importlib.util.find_spec(module)
    if spec and spec.origin and Path(spec.origin).parent != Path.cwd():  # a file here is refused as existing
        taken.add(module)
    templates = [_template(name) for name in RECIPES[kind].files]
    imports = {
        word
        for text in templates
        for line in re.findall("^from .* import (.*)$", text, re.M)
        for word in line.split(", ")
    }
    if taken := taken | ({class_name} & imports):
        what = f"{' and '.join(sorted(taken))} is a word of Python or of a library"
        raise PhmrunError(what, hint=f"Choose another name: my-{'-'.join(words)}.")


def _is_checkout(project: Path) -> bool:
    """Return True if ``project`` is phmrun's pyproject.toml.

    Return False for any other, damaged or missing file.
    """
    try:
        return bool(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["name"] == "phmrun")
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _in_package(recipe: Recipe, names: dict[str, str], project: Path) -> list[Path]:
    """Write the files into the checkout, with an entry point in ``project``.

    Entry points of the part's group are sorted.

    Returns:
        Paths of the files written, ``project`` last.

    Raises:
        PhmrunError: A file exists already.
    """
    nothing = {"load": "", "call": "", "register": "", "announce": ""}
    written = {
        Path(Template(place).substitute(names)): _filled(template, {**names, **nothing})
        for template, place in recipe.files.items()
    }
    _write(written)
    lines = project.read_text(encoding="utf-8").split("\n")
    head = f'[project.entry-points."{recipe.registry.group}"]'
    first = lines.index(head) + 1
    last = next((place for place in range(first, len(lines)) if not lines[place]), len(lines))
    point = f'{names["name"]} = "{Template(recipe.value).substitute(names)}"'
    lines[first:last] = sorted([*lines[first:last], point])
    write_text(project, "\n".join(lines))
    return [*written, project]


def _as_plugin(kind: Kind, recipe: Recipe, names: dict[str, str]) -> list[Path]:
    """Write a plug-in file, and its test, into the working folder.

    A task is one file without a test.

    Returns:
        Paths of the files written, the plug-in first.

    Raises:
        PhmrunError: A file exists already.
    """
    path, test = Path(f"{names['module']}.py"), Path(f"test_{names['module']}.py")
    symbol = "TASK" if kind is Kind.TASK else names["CLASS"] if kind is Kind.METRIC else names["Class"]
    registry = recipe.call.partition("(")[0]
    parts = {
        **names,
        "register": f"from phmrun.registry import {registry}",
        "announce": f'\n{recipe.call}.add("{names["name"]}", {symbol})',
        "load": "\nfrom pathlib import Path\n",
        "call": f'from phmrun.registry import load_plugin\n\nload_plugin(Path(__file__).with_name("{path.name}"))\n',
    }
    if kind is Kind.TASK:
        sources = [_filled(f"task_{part}", parts) for part in ("config", "data", "module", "init")]
        text = _joined(sources, f"phmrun.tasks.{names['module']}", f"phmrun_plugin_{names['module']}")
        text = text.replace("import Format, Task", "import Format, Task\nfrom phmrun.registry import TASKS")
        _write({path: f"{text}\n{parts['announce']}\n"})
        return [path]
    _write({path: _filled(f"{kind}", parts), test: _filled(f"{kind}_test", parts)})
    return [path, test]


def _filled(template: str, parts: dict[str, str]) -> str:
    """Return a packaged template with its parts filled in.

    At most two empty lines follow each other; one line end is last.
    """
    filled = re.sub(r"\n{4,}", "\n\n\n", Template(_template(template)).substitute(parts))
    return filled.rstrip("\n") + "\n"


def _template(name: str) -> str:
    """Return the text of a packaged template."""
    return (files("phmrun.cli") / "templates" / f"{name}.txt").read_text(encoding="utf-8")


def _joined(sources: list[str], package: str, module: str) -> str:
    """Return modules of a package as one file.

    Imports come first, without those of each other. The docstring is that of the last source; names ``package:…``
    become ``module:…``.
    """
    imports: dict[str, None] = {}
    bodies = []
    for source in sources:
        tree = ast.parse(source)
        body = source.split("\n")
        for node in reversed(tree.body):
            is_import = isinstance(node, ast.Import | ast.ImportFrom)
            is_text = node is tree.body[0] and isinstance(node, ast.Expr)
            if is_import or is_text:
                lines = body[node.lineno - 1 : node.end_lineno]
                del body[node.lineno - 1 : node.end_lineno]
                if is_import and not (isinstance(node, ast.ImportFrom) and str(node.module).startswith(package)):
                    imports["\n".join(lines)] = None
        bodies.append("\n".join(body).strip("\n"))
    text = ast.get_docstring(ast.parse(sources[-1]))
    heads = sorted(imports, key=lambda line: (line.split()[1].split(".")[0] in ("phmrun", "torch", "pydantic"), line))
    joined = "\n\n\n".join([f'"""{text}"""\n\n' + "\n".join(heads), *bodies])
    return re.sub(rf"{package}(\.\w+)?:", f"{module}:", joined)


def _write(written: dict[Path, str]) -> None:
    """Write all files with their folders, or none if one exists.

    Raises:
        PhmrunError: A file exists already.
    """
    if existing := [str(path) for path in written if path.exists()]:
        raise PhmrunError(f"the file exists: {', '.join(existing)}", hint="Remove it, or choose another name.")
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
