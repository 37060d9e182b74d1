"""Mistakes in a configuration: collected, worded, and raised together."""

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from phmrun.config.sections import Section, is_section
from phmrun.documents import cut
from phmrun.errors import PhmrunError, nearest


@dataclass(frozen=True)
class Problem:
    """One mistake: its dotted key, what is wrong, who said it (``file:line`` or an option of the command line).

    With the values, or the range, that would have been accepted, and the names most like the one given, best first.
    """

    key: str
    what: str
    source: str | None = None
    valid: Sequence[str] = ()
    suggestion: Sequence[str] = ()

    def __str__(self) -> str:
        """The problem in one or two lines."""
        text = f"{cut(self.key)}: {self.what}"
        if self.suggestion:
            text += f"; did you mean {' or '.join(repr(name) for name in self.suggestion)}?"
        if self.source:
            text += f" (from {cut(self.source)})"
        return f"{text}\n  valid: {', '.join(self.valid)}" if self.valid else text


class ConfigError(PhmrunError):
    """All mistakes of a configuration at once, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = "the configuration has a mistake" if count == 1 else f"the configuration has {count} mistakes"
        super().__init__("\n".join([f"{head}:", *(str(problem) for problem in self.problems)]))


def unknown_key(key: str, known: Iterable[str], source: str | None) -> Problem:
    """The problem of a key that the schema does not have; ``known`` are its neighbours, ``key`` is dotted."""
    names = list(known)
    if key == "model.network":
        what = "this task has one network, so that there is none to choose; --layer says how its matrices are built"
        return Problem(key, what, source)
    what = "there is no such key"
    if source and source.startswith("--") and not source.startswith("--set"):
        what = f"this task has no {source}"
    return Problem(key, what, source, valid=names, suggestion=nearest(key.rpartition(".")[2], names))


_ALGEBRAS = ("complex", "quaternion", "octonion", "sedenion")
_PAPERS_NAMES = {"shapeshifter": "kronecker", "lowrank": "low-rank", "svd": "low-rank", "linear": "dense"}
"""Structures by the names that papers and other programs have for them."""


def advise(scope: str, name: str) -> str:
    """What to say instead of the name of a layer that is a setting of another one; empty: nothing is known of it."""
    flag = f"--{scope}" if scope in ("layer", "embedding", "output") else f"--set {scope}.structure"
    sign = " " if flag == f"--{scope}" else "="
    plain = name.lower()
    if (algebra := plain.removesuffix("s")) in _ALGEBRAS:
        return f"say {flag}{sign}hypercomplex --set {scope}.algebra={algebra}"
    return f"say {flag}{sign}{_PAPERS_NAMES[plain]}" if plain in _PAPERS_NAMES else ""


def from_validation(error: ValidationError, schema: type[Section], origin: Mapping[str, str]) -> list[Problem]:
    """The problems that pydantic found, in plain words and with the range of each key."""
    problems = []
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        key = ".".join(str(part) for part in location) or "configuration"
        field = _field(schema, location)
        expected = valid_values(field) if field else []
        given = detail["input"]
        close = nearest(given, expected) if isinstance(given, str) and detail["type"] == "literal_error" else []
        what = _wording(detail["type"], detail["msg"], given)
        problems.append(Problem(key, what, _said_by(key, origin), expected, close))
    return problems


def valid_values(field: FieldInfo) -> list[str]:
    """The choices of a field, or its range, as short texts."""
    among = choices(field.annotation)
    if among:
        return among
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    return [
        f"{sign} {getattr(bound, name)}" for bound in field.metadata for name, sign in signs.items()
        if getattr(bound, name, None) is not None
    ]  # fmt: skip


def choices(annotation: Any) -> list[str]:
    """The values of a type that has few: a ``Literal``, a truth value, or a union of such."""
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


def _wording(kind: str, message: str, given: Any) -> str:
    words = {
        **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
        **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
        "finite_number": "must be a finite number",
        **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
        "string_type": "must be text",
        "missing": "is missing",
        "literal_error": "is not one of the valid values",
        **dict.fromkeys(("greater_than", "greater_than_equal", "less_than", "less_than_equal"), "is out of range"),
    }
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    text = words.get(kind, message[:1].lower() + message[1:])
    return text if kind == "missing" else f"{text}, not {given!r}" if "must" in text else f"{given!r} {text}"


def _field(schema: type[Section], location: tuple[int | str, ...]) -> FieldInfo | None:
    """The field at a location, where it is a leaf of the schema."""
    section: type[Section] = schema
    for part in location:
        field = section.model_fields.get(str(part))
        if field is None:
            return None
        if not is_section(field.annotation):
            return field
        section = field.annotation
    return None


def _said_by(key: str, origin: Mapping[str, str]) -> str | None:
    """The label of the key, or, for a mistake between the keys of a section, those of its members."""
    for known in (key, key.rpartition(".")[0]):
        if known in origin:
            return origin[known]
    labels = dict.fromkeys(label for name, label in origin.items() if name.startswith(f"{key}."))
    return ", ".join(labels) or None
