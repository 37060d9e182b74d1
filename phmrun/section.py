"""Base class of all sections of a configuration and of options of layers, and marks of their keys.

Imports pydantic only.
"""

import ast
import inspect
import textwrap
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, TypeGuard, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationInfo, field_validator
from pydantic.json_schema import JsonSchemaValue

LARGEST_NUMBER = 2**32 - 1  # bound of all integers in a configuration


@dataclass(frozen=True)
class Unhashed:
    """Annotation of a key or section outside the run id.

    Use it as in ``Annotated[int, Unhashed()]``.
    """


@dataclass(frozen=True)
class Formerly:
    """Annotation of a renamed key.

    The former name is still valid, and is the one in the run id.
    """

    name: str


class Section(BaseModel):
    """Group of keys.

    Give each field a default, bounds, and a docstring with its unit: the description in the schema.

    A section with a field ``preset`` or ``network`` lists the values that each choice sets in ``presets``, by name.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        protected_namespaces=(),
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    versions: ClassVar[Mapping[str, int]] = {}
    """Versions of changed mathematics, by ``"key=value"`` or ``"key"``; see :mod:`phmrun.config.identity`."""
    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Conditions, each followed by the keys that have no effect without it: ``("kind=word", "lowercase")``. The key of
    a condition may be dotted, and ``|`` separates its values.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return pydantic's JSON Schema, with the docstring of each key as its description, on one line.

        The source is read here and not by pydantic, which would read it whenever a section is imported.
        """
        document = handler(core)
        properties = handler.resolve_ref_schema(document).get("properties", {})
        for name, text in _docstrings(cls).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return document

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the defaults of the keys that have one, in the order of the schema."""
        return {name: field.default for name, field in cls.model_fields.items() if not field.is_required()}

    @classmethod
    def all_versions(cls) -> dict[str, int]:
        """Return the versions of changed mathematics, by ``"key=value"`` or ``"key"``.

        Versions of base classes are included; the class's own override them.
        """
        versions: dict[str, int] = {}
        for kind in reversed(cls.__mro__):
            versions |= vars(kind).get("versions", {})
        return versions

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_as_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject ``true`` and ``false`` for keys of other types.

        Otherwise return the value. Python reads them as the numbers 1 and 0. Elements of lists are not checked.

        Raises:
            ValueError: The value is boolean, and the key's type has no truth values.
        """
        if isinstance(value, bool) and info.field_name in cls.model_fields:
            kind = cls.model_fields[info.field_name].annotation
            kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
            if not any(option in (bool, Any) or True in get_args(option) for option in kinds):
                raise ValueError(f"must not be {str(value).lower()}")
        return value

    @field_validator("*")
    @classmethod
    def _of_32_bits(cls, value: Any) -> Any:
        """Reject integers above 2³² − 1 in absolute value.

        Otherwise return the value. Elements of lists are not checked.

        Raises:
            ValueError: The integer is too large.
        """
        if type(value) is int and abs(value) > LARGEST_NUMBER:
            raise ValueError(f"must be no larger than {LARGEST_NUMBER:,}")
        return value


def _docstrings(section: type[Section]) -> dict[str, str]:
    """Return the docstrings below the keys of a section and of its bases, each on one line.

    Classes without source, made of several sections, have none beside those of their bases.
    """
    texts: dict[str, str] = {}
    for kind in filter(is_section, reversed(section.__mro__)):
        with suppress(OSError):
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
            for key, text in pairwise(cast(ast.ClassDef, body).body):
                match key, text:
                    case ast.AnnAssign(), ast.Expr(ast.Constant(str(docstring))):
                        texts[ast.unparse(key.target)] = " ".join(docstring.split())
    return texts


@cache
def former_name(section: type[Section], name: str) -> str:
    """Return the former name of a renamed key.

    It is ``name`` if the key was never renamed.

    Raises:
        KeyError: The section has no such key.
    """
    marks = section.model_fields[name].metadata
    return next((mark.name for mark in marks if isinstance(mark, Formerly)), name)


def is_section(annotation: Any) -> TypeGuard[type[Section]]:
    """Return True if an annotation is a subclass of :class:`Section`.

    Unions, such as an optional section, are not.
    """
    return isinstance(annotation, type) and issubclass(annotation, Section)


@cache
def is_hashed(section: type[Section], name: str) -> bool:
    """Return True if a key is part of the run id.

    That is so unless it is marked :class:`Unhashed`.

    Raises:
        KeyError: The section has no such key.
    """
    return not any(isinstance(mark, Unhashed) for mark in section.model_fields[name].metadata)


class OpenSection(Section):
    """Section that takes further keys besides its fields."""

    model_config = ConfigDict(extra="allow")

    @property
    def options(self) -> dict[str, Any]:
        """Further keys and their values, a copy."""
        return dict(self.__pydantic_extra__ or {})

    @property
    def option_defaults(self) -> dict[str, Any]:
        """Defaults of further keys; here none. Keys without one are always hashed."""
        return {}
