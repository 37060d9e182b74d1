"""Configuration files: mappings in YAML, read with their line numbers and written with comments."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from phmrun.config.schema import Section
from phmrun.documents import LARGEST, Dumper, parse_yaml_lines
from phmrun.errors import PhmrunError
from phmrun.escaping import one_line


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an empty file is an empty mapping.

    Raises:
        PhmrunError: The file is missing, is not YAML or not a mapping, or gives a key twice; with file and line.
    """
    return parse_mapping(read_config_text(path), str(path))[0]


def read_config_text(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        PhmrunError: There is no such file, or it is not UTF-8, not a regular file, or larger than any configuration.
    """
    try:
        if not path.is_file() and path.exists():  # a directory, or a device or pipe that never ends
            raise PhmrunError("this is not a regular file", where=str(path))
        if path.stat().st_size > 4 * LARGEST:  # bytes of a character
            raise PhmrunError(f"the file is too large: {path.stat().st_size:,} bytes", where=str(path))
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PhmrunError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise PhmrunError(f"the file is not UTF-8 text (byte {error.start})", where=str(path)) from error


def parse_mapping(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The mapping in a YAML text, and the line of every dotted key; ``name`` stands for it in messages.

    Raises:
        PhmrunError: It is no YAML or no mapping, or gives a key twice.
    """
    value, lines = parse_yaml_lines(text, name)
    if value is None:
        return {}, {}
    if not isinstance(value, dict):
        raise PhmrunError(
            "a configuration is a mapping of keys to values", where=name, hint="Write lines `key: value`."
        )
    return value, lines


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
        comment = one_line(comments.get(f"{prefix}{key}", ""))  # a file's name may hold line ends
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
        value, Dumper=Dumper, allow_unicode=not escape, width=10**6, default_flow_style=True, default_style=style
    )
    return text.removesuffix("...\n").strip()
