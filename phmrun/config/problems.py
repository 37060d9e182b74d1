"""Mistakes in a configuration: collected, worded, and raised together."""

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError

from phmrun.config.names import registered_names
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
        path, kind, given = detail["loc"], detail["type"], detail["input"]
        key = ".".join(str(part) for part in path) or "configuration"
        expected = _valid_values(schema, path)
        close = nearest(given, expected) if isinstance(given, str) and kind == "literal_error" else []
        # A mistake between the keys of a section was made by those who said its members.
        known = [origin[name] for name in (key, key.rpartition(".")[0]) if name in origin]
        members = dict.fromkeys(label for name, label in origin.items() if name.startswith(f"{key}."))
        said_by = known[0] if known else ", ".join(members) or None
        problems.append(Problem(key, _wording(kind, detail["msg"], given), said_by, expected, close))
    return problems


def _valid_values(section: type[Section], path: tuple[int | str, ...]) -> list[str]:
    """The choices of the field at a place, or its range, as short texts; none where that is no leaf of the schema."""
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
