"""Reference of all configuration keys, made of the typed sections when the documentation is built."""

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from phmrun.config import json_schema
from phmrun.config.sources import task_defaults
from phmrun.layers import options_of
from phmrun.registry import STRUCTURES, TASKS

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

PAGE = "reference/configuration.md"
HEAD = """# Configuration keys

Every key of a configuration file, with its type, bounds, default and meaning. Set one in a YAML file (`--config FILE`)
or on the command line: `phmrun train nmt --set training.optimizer.lr=0.001`. Defaults are those of the task when no
preset or configuration file changes them; `phmrun train TASK --dry-run` prints the values of a run and their origins.
"""
COLUMNS = "| key | type | default | meaning |\n|---|---|---|---|"
BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
NO_DEFAULT = object()


def on_files(files: "Files", config: Any) -> "Files":
    """Add the page to the documentation (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # only the build of the documentation needs it

    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Return the page as Markdown: keys of all tasks first, then each task's, then the options of structures."""
    every = {name: dict(task_keys(name)) for name in sorted(TASKS.names())}
    tasks = {name: keys for name, keys in every.items() if not TASKS.get(name).runner}
    first = next(iter(tasks.values()))
    shared = {}
    for key, (kind, default, meaning) in first.items():
        rows = [keys.get(key, (None, None, None)) for keys in tasks.values()]
        if all((row[0], row[2]) == (kind, meaning) for row in rows):
            shared[key] = (kind, default if all(row[1] == default for row in rows) else "by task", meaning)
    parts = [HEAD, "## All tasks", table(shared)]
    for name, keys in every.items():
        parts += [f"## {name}", table({key: row for key, row in keys.items() if shared.get(key) != row})]
    parts += [
        "## Options of structures",
        "Further keys of `layer`, `embedding` and `output`, by `structure`.",
        options(),
    ]
    return "\n\n".join(parts) + "\n"


def task_keys(name: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield each dotted key of a task with type, default and meaning."""
    schema = json_schema(TASKS.get(name).load("schema"))
    yield from _keys(schema, schema["$defs"], task_defaults(name).values, "")


def table(rows: dict[str, tuple[str, str, str]]) -> str:
    """Return rows as a Markdown table."""
    lines = [f"| `{key}` | " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for key, row in rows.items()]
    return "\n".join([COLUMNS, *lines])


def options() -> str:
    """Return the table of every structure's options."""
    lines = ["| structure | option | default | meaning |", "|---|---|---|---|"]
    for name in sorted(STRUCTURES.names()):
        for option, field in options_of(name).model_fields.items():
            lines.append(f"| `{name}` | `{option}` | {_shown(field.default)} | {field.description} |")
    return "\n".join(lines)


def _keys(
    schema: dict[str, Any], definitions: dict[str, Any], defaults: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the keys below a prefix; a nested section's keys in its place."""
    for name, key in schema["properties"].items():
        section = definitions.get(str(key.get("$ref", "")).removeprefix("#/$defs/"))
        default: Any = defaults.get(name, NO_DEFAULT) if isinstance(defaults, dict) else NO_DEFAULT
        if section and "properties" in section:
            yield from _keys(section, definitions, default if default is not NO_DEFAULT else {}, f"{prefix}{name}.")
            continue
        shown = key.get("default", NO_DEFAULT) if default is NO_DEFAULT else default
        yield f"{prefix}{name}", (_type(key, definitions), _shown(shown), key.get("description", ""))


def _type(key: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return a key's type with its bounds or choices, in words."""
    if choices := key.get("enum") or ([key["const"]] if "const" in key else None):
        return " · ".join(f"`{choice}`" for choice in choices)
    if "$ref" in key:
        return _type(definitions[key["$ref"].removeprefix("#/$defs/")], definitions)
    if "anyOf" in key:
        return " or ".join(dict.fromkeys(_type(kind, definitions) for kind in key["anyOf"]))
    name = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` · `false`"}.get(
        key.get("type", ""), key.get("type", "any")
    )
    if name == "array":
        name = "list" if not isinstance(key.get("items"), dict) else f"list of {_type(key['items'], definitions)}"
    bounds = [f"{sign} {key[bound]:,}" for bound, sign in BOUNDS.items() if bound in key]
    return " ".join([{"object": "mapping", "null": "`null`"}.get(name, name), ", ".join(bounds)]).strip()


def _shown(default: Any) -> str:
    """Return a default as YAML writes it; an en dash if there is none."""
    if default in (NO_DEFAULT, inspect.Parameter.empty):
        return "–"
    return f"`{json.dumps(default, ensure_ascii=False, default=str)}`"
