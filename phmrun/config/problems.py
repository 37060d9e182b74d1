"""Errors in a configuration: collected, worded, and raised together."""

import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError

from phmrun.config.names import UNREGISTERED, registered_names
from phmrun.documents import cut
from phmrun.errors import PhmrunError, nearest
from phmrun.section import Section, is_section


@dataclass(frozen=True)
class Problem:
    """Error in a configuration.

    Attributes:
        key: Dotted key.
        what: Description of the error.
        source: Origin of the value: ``file:line``, or an option of the command line.
        valid: Valid values, or the valid range.
        suggestion: Names similar to the invalid one, most similar first.
    """

    key: str
    what: str
    source: str | None = None
    valid: Sequence[str] = ()
    suggestion: Sequence[str] = ()

    def __str__(self) -> str:
        """Return the problem in one line: key, error, suggestions, origin.

        A second line lists valid values. Empty parts are left out; a long key or origin is shortened.
        """
        text = f"{cut(self.key)}: {self.what}"
        if self.suggestion:
            text += f"; did you mean {' or '.join(repr(name) for name in self.suggestion)}?"
        if self.source:
            text += f" (from {cut(self.source)})"
        return f"{text}\n  valid: {', '.join(self.valid)}" if self.valid else text


class ConfigError(PhmrunError):
    """All errors of a configuration, at least one (exit 2)."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = "the configuration has a mistake" if count == 1 else f"the configuration has {count} mistakes"
        super().__init__("\n".join([f"{head}:", *(str(problem) for problem in self.problems)]))


def unknown_key(key: str, known: Iterable[str], source: str | None) -> Problem:
    """Return the problem of a dotted key that the schema lacks.

    Similar keys are suggested, and all of ``known`` are listed. Of a section's key with a dot, it says how to nest it.

    Args:
        key: Dotted key.
        known: Valid keys of the same section.
        source: Origin of the key.
    """
    names, (section, dot, rest) = list(known), key.partition(".")
    if dot and section in names:
        return Problem(key, f"is nested in a file, as in {section}: {{{rest}: …}}", source)
    return Problem(key, "there is no such key", source, valid=names, suggestion=nearest(key.rpartition(".")[2], names))


def from_validation(
    error: ValidationError, schema: type[Section], origin: Mapping[str, str], prefix: str = ""
) -> list[Problem]:
    """Return pydantic's errors as problems, with valid values or ranges.

    Names similar to an invalid one are suggested. The origin of an error is that of its key, else of the key's section.
    Otherwise it is those of the keys inside that it names, or else of all, joined by commas, or None. A key has one
    problem.

    Args:
        error: Error of pydantic.
        schema: Section that was validated.
        origin: Origin of each dotted key.
        prefix: Dotted key of the section, with a final dot.
    """
    problems: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        path, kind, value = detail["loc"], detail["type"], detail["input"]
        unions = [n for n in range(len(path)) if get_origin(_annotation(schema, path[:n])) in (Union, types.UnionType)]
        path = path[: unions[0]] if unions else path  # what follows is a type of the union, and places in it
        key = (prefix + ".".join(str(part) for part in path)).removesuffix(".") or "configuration"
        expected = _valid_values(schema, path)
        close = nearest(value, expected) if isinstance(value, str) and kind in ("literal_error", UNREGISTERED) else []
        # An error of a whole section comes from the origins of its keys.
        labels = [origin[name] for name in (key, key.rpartition(".")[0]) if name in origin]
        inside = {name: label for name, label in origin.items() if name.startswith(f"{key}.")}
        what = _wording(kind, detail["msg"], value)
        named = {name: label for name, label in inside.items() if name.rpartition(".")[2] in re.findall(r"\w+", what)}
        origin_label = labels[0] if labels else ", ".join(dict.fromkeys((named or inside).values())) or None
        if isinstance(value, str) and value in _valid_values(schema, (*path[:-1], "preset")):
            what = f"{value!r} is a value of {key.rpartition('.')[0]}.preset"
        what = f"{problems[key].what} or {what}" if key in problems else what
        problems[key] = Problem(key, what, origin_label, expected, close)
    return list(problems.values())


def _annotation(kind: Any, path: tuple[int | str, ...]) -> Any:
    """Return the type of the field at a path of sections; ``None`` if it leads to none."""
    for part in path:
        field = kind.model_fields.get(str(part)) if is_section(kind) else None
        kind = field.annotation if field else None
    return kind


def _valid_values(section: type[Section], path: tuple[int | str, ...]) -> list[str]:
    """Return the valid values of a field, or bounds such as ``>= 1``.

    Empty if the path leads to a section or out of the schema, or if the field has neither.
    """
    for part in path:
        field = section.model_fields.get(str(part))
        if field is None:
            return []
        if is_section(field.annotation):
            section = field.annotation
            continue
        bounds = (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
        limits = ((getattr(mark, name, None), sign) for mark in field.metadata for name, sign in bounds)
        names = choices(field.annotation) or [*registered_names(field)]
        return names or [f"{sign} {limit}" for limit, sign in limits if limit is not None]
    return []


def choices(annotation: Any) -> list[str]:
    """Return the values of a ``Literal``, of ``bool``, or of a union of these.

    The optional value is "null", and comes last. Empty for any other type, and for a union with another type in it.
    """
    origin = get_origin(annotation)
    if origin is Literal:
        return [str(value) for value in get_args(annotation)]
    if annotation is bool:
        return ["true", "false"]
    if origin in (Union, types.UnionType):
        parts = [choices(part) for part in get_args(annotation) if part is not type(None)]
        if all(parts):
            optional = ["null"] if type(None) in get_args(annotation) else []
            return [value for part in parts for value in part] + optional
    return []


def _wording(kind: str, message: str, value: Any) -> str:
    """Return the text of pydantic's error of this kind, with the invalid value.

    A missing key has no value. An error of a validator keeps its own message, without the value. An unknown kind keeps
    pydantic's message, beginning in lower case.
    """
    words = {
        **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
        **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
        "finite_number": "must be a finite number",
        **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
        "string_type": "must be text",
        "list_type": "must be a list",
        "dict_type": "must be keys with values",
        "path_type": "must be a path",
        "missing": "is missing",
        "literal_error": "is not one of the valid values",
        UNREGISTERED: f"is not one of the valid values; {message}",
        **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), "is out of range"),
    }
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    text = words.get(kind, message[:1].lower() + message[1:])
    return text if kind == "missing" else f"{text}, not {value!r}" if "must" in text else f"{value!r} {text}"
