"""YAML files: read strictly, with line numbers, and written with comments.

The YAML of version 1.1 reads ``no`` as false, ``1e-3`` as text and ``1:30:00`` as 5400. The reader here takes the core
schema of version 1.2 instead: ``true`` and ``false`` only, numbers as every programmer writes them, times as text.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from phmrun.config.schema import Section
from phmrun.errors import PhmrunError

_SCALARS = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|nan)",
        list("-+.0123456789"),
    ),
    ("tag:yaml.org,2002:merge", r"<<", ["<"]),
)


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2, no duplicate keys, and only text as keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (PyYAML's own protocol)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _KEY_TAGS:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {getattr(key_node, 'value', '')!r} must be text", key_node.start_mark
                )
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the key {key_node.value!r} is given twice, first in line {seen[key_node.value]}",
                    key_node.start_mark,
                )
            seen[key_node.value] = line
        return super().construct_mapping(node, deep=deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        text = self.construct_scalar(node)
        return int(text, 16 if "x" in text else 10)


class _Dumper(yaml.SafeDumper):
    """SafeDumper that also quotes what only the reader above would take for a number."""

    yaml_implicit_resolvers = {key: list(value) for key, value in yaml.SafeDumper.yaml_implicit_resolvers.items()}  # noqa: RUF012


_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
for _tag, _pattern, _first in _SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), _first)


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an empty file is an empty mapping.

    Raises:
        PhmrunError: The file is missing, is not YAML or not a mapping, or gives a key twice; with file and line.
    """
    return parse_mapping(read_config_text(path), str(path))


def read_config_text(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        PhmrunError: There is no such file, or it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PhmrunError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise PhmrunError(f"the file is not UTF-8 text (byte {error.start})", where=str(path)) from error


def parse_mapping(text: str, name: str) -> dict[str, Any]:
    """The mapping in a YAML text; ``name`` stands for it in messages.

    Raises:
        PhmrunError: It is no YAML or no mapping, or gives a key twice.
    """
    value = _load(text, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PhmrunError(
            "a configuration is a mapping of keys to values", where=name, hint="Write lines `key: value`."
        )
    return value


def parse_value(text: str, name: str) -> Any:
    """The value of one YAML scalar, list or mapping, as it stands on the command line.

    Raises:
        PhmrunError: It is not YAML.
    """
    return _load(text, name)


def line_numbers(text: str) -> dict[str, int]:
    """The line of every dotted key of a YAML text that ``parse_mapping`` has accepted."""
    lines: dict[str, int] = {}

    def visit(node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                key = f"{prefix}{key_node.value}"
                lines[key] = key_node.start_mark.line + 1
                visit(value_node, f"{key}.")

    visit(yaml.compose(text, Loader=_Loader), "")
    return lines


def to_yaml(config: Section, comments: Mapping[str, str] | None = None) -> str:
    """The configuration as YAML, every key in the order of the schema.

    Args:
        config: Any section.
        comments: Text to set behind a dotted key, aligned.
    """
    lines = list(_yaml_lines(config.model_dump(mode="json"), "", comments or {}))
    width = max((len(line) for line, comment in lines if comment), default=0)
    return "".join(f"{line:<{width}}  # {comment}\n" if comment else f"{line}\n" for line, comment in lines)


def _yaml_lines(values: Mapping[str, Any], prefix: str, comments: Mapping[str, str]) -> list[tuple[str, str]]:
    lines = []
    indent = "  " * prefix.count(".")
    for key, value in values.items():
        comment = comments.get(f"{prefix}{key}", "")
        if isinstance(value, dict) and value:
            lines.append((f"{indent}{key}:", comment))
            lines += _yaml_lines(value, f"{prefix}{key}.", comments)
        else:
            lines.append((f"{indent}{_one_line(key)}: {_one_line(value)}", comment))
    return lines


def _one_line(value: Any) -> str:
    escape = isinstance(value, str) and not value.isprintable()  # line ends and the like, kept on the one line
    style = '"' if escape else None
    text: str = yaml.dump(
        value, Dumper=_Dumper, allow_unicode=not escape, width=10**6, default_flow_style=True, default_style=style
    )
    return text.removesuffix("...\n").strip()


def _load(text: str, name: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise PhmrunError(error.problem or "this is not YAML", where=where) from error
    except yaml.YAMLError as error:
        raise PhmrunError(f"this is not YAML: {error}", where=name) from error
    except RecursionError as error:
        raise PhmrunError("the values are nested too deeply", where=name) from error
