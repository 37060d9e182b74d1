"""What every section of a configuration is: typed, frozen, and free of unknown keys."""

import types
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

LARGEST_NUMBER = 2**32 - 1
"""Of all whole numbers in a configuration."""
MOST_LAYERS = 1000
"""Layers of a network, which are built one by one."""


@dataclass(frozen=True)
class Unhashed:
    """Marks a key, or a whole section, that does not change what an experiment is: ``Annotated[int, Unhashed()]``.

    Such a key is no part of the run id, so the same experiment keeps its name on another machine.
    """


@dataclass(frozen=True)
class Formerly:
    """Marks a renamed key with the name that it had: ``Annotated[int, Formerly("letter_width")]``.

    The former name is still read, as run directories hold it, and the run id is computed under it.
    """

    name: str


class Section(BaseModel):
    """A group of keys. Give every field a description with its unit, its bounds, and a default.

    A section with a field ``preset``, or ``network``, lists in ``presets`` what naming one sets, by its name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
    presets: ClassVar[dict[str, dict[str, Any]]] = {}

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_as_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuses ``true`` for a number, which Python would silently read as 1."""
        name = info.field_name
        if (
            isinstance(value, bool)
            and name in cls.model_fields
            and not _accepts_bool(cls.model_fields[name].annotation)
        ):
            raise ValueError(f"must not be {str(value).lower()}")
        return value

    @field_validator("*")
    @classmethod
    def _of_32_bits(cls, value: Any) -> Any:
        """Refuses whole numbers that the libraries below could not take."""
        if type(value) is int and abs(value) > LARGEST_NUMBER:
            raise ValueError(f"must be no larger than {LARGEST_NUMBER:,}")
        return value


def is_hashed(section: type[Section], name: str) -> bool:
    """Whether a key changes what an experiment is."""
    return not any(isinstance(mark, Unhashed) for mark in section.model_fields[name].metadata)


def former_name(section: type[Section], name: str) -> str:
    """The name that a key had at first; its own where it has never been renamed."""
    marks = section.model_fields[name].metadata
    return next((mark.name for mark in marks if isinstance(mark, Formerly)), name)


def is_section(annotation: Any) -> bool:
    """Whether a field's annotation is a nested section."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _accepts_bool(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_accepts_bool(part) for part in get_args(annotation))
    return (
        annotation is bool or annotation is Any or (get_origin(annotation) is Literal and True in get_args(annotation))
    )
