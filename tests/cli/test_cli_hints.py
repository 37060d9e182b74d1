"""Commands and options in the program's texts: every printed one exists."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from phmrun.cli.app import whole

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "phmrun").rglob("*.py"), *(ROOT / "tasks").rglob("*.py")])
COMMAND = re.compile(r"(?:^|`|: )phmrun ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)?)([^\n`;,·]*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*\b(?!-)")


def texts(path: Path) -> Iterator[str]:
    """String literals of a file; a placeholder is ``X``. Docstrings count only below ``cli``, as help."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
        if path.parent.name != "cli"
        or not (isinstance(node, ast.FunctionDef) or getattr(node, "name", "").endswith("Options"))
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inner:
            yield node.value


def options_by_verb() -> dict[str, set[str]]:
    """Long options of every verb: ``{"runs list": {"--task", …}}``."""
    named: dict[str, set[str]] = {}

    def collect(command, name: str) -> None:
        named[name] = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for sub_name, sub in getattr(command, "commands", {}).items():
            collect(sub, f"{name} {sub_name}".strip())

    collect(whole(), "")
    return named


VERBS = options_by_verb()
OTHERS = {"--array", "--job-name", "--noheader", "--open-mode", "--parsable", "--requeue", "--signal"}
"""Options of SLURM's programs."""
PROSE = {"calls", "again"}
ALWAYS = {"--help", "--debug", "--version", "--json", "--verbose", "--quiet"}


@pytest.mark.parametrize("room", sorted({path.relative_to(ROOT).parts[:2] for path in FILES}), ids="/".join)
def test_commands_options_and_extras_in_texts_exist(room):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    options = set().union(*VERBS.values()) | ALWAYS | OTHERS
    for path in FILES:
        if path.relative_to(ROOT).parts[:2] != room:
            continue
        for text in texts(path):
            extras = set(re.findall(r"phmrun\[([a-z0-9-]+)\]", text))
            assert extras <= project["optional-dependencies"].keys(), text
            missing = set(OPTION.findall(text)) - options
            assert not missing, f"no verb has {', '.join(missing)}: {text}"
            for words, rest in COMMAND.findall(text):
                if words.split()[0] not in PROSE:
                    check_command(words, rest, text)


def check_command(words: str, rest: str, text: str) -> None:
    """The verb exists and accepts the options that follow it."""
    verb = next((name for name in (words, words.split()[0]) if name in VERBS), None)
    assert verb, f"there is no `phmrun {words}`: {text}"
    accepted = VERBS[verb] | VERBS.get("", set()) | ALWAYS
    accepted |= set().union(*(options for name, options in VERBS.items() if name.startswith(f"{verb} ")))
    missing = set(OPTION.findall(rest)) - accepted
    assert not missing, f"`phmrun {verb}` has no {', '.join(missing)}: {text}"


def test_help_of_sweep_begins_with_plan_seeds_and_jobs(phmrun):
    text = phmrun("sweep", "--help").out
    places = [text.index(option) for option in ("--plan,", "--seeds", "--jobs", "--only")]
    assert places == sorted(places)
