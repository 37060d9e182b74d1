"""Options of structures and embeddings: those of a constructor, and checks of their values."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from phmrun.errors import PhmrunError, unknown
from phmrun.registry import EMBEDDINGS, FREEZE, STRUCTURES, Option

LARGEST_NUMBER = 2**32 - 1  # bound of all integers


def options_of(name: str, *, table: bool = False) -> tuple[Option, ...]:
    """Return the options of a structure or embedding, in the constructor's order.

    For a structure ``freeze`` follows, unless its constructor has it. Fixed options of an embedding are left out.

    Args:
        name: Name of a structure or, with ``table``, of an embedding.
        table: Accept embeddings too.

    Raises:
        PhmrunError: There is no such structure, or ``name`` is an embedding and ``table`` is False.
    """
    if table and name in EMBEDDINGS:
        options: tuple[Option, ...] = EMBEDDINGS.get(name).options
        return options
    if name in STRUCTURES:
        options = options_of_function(STRUCTURES.get(name).__init__)
        return options if any(option.name == FREEZE.name for option in options) else (*options, FREEZE)
    if name in EMBEDDINGS:
        raise PhmrunError(
            f"{name!r} makes the vectors of an embedding, not a weight matrix",
            hint=f"use --embedding {name}",
        )
    if table:
        raise unknown("embedding", name, [*STRUCTURES.names(), *EMBEDDINGS.names()])
    raise unknown("layer", name, STRUCTURES.names())


@functools.lru_cache(maxsize=256)
def options_of_function(function: Callable[..., Any]) -> tuple[Option, ...]:
    """Return the keyword-only parameters of a function as options.

    Annotations ``Annotated[type, text]`` give type and help text; the help of others is "". Without annotation the type
    is Any, without default the default is ``inspect.Parameter.empty``. Options keep the order of the signature. Results
    are cached.
    """
    hints = get_type_hints(function, include_extras=True)
    options = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        annotation, text = hints.get(parameter.name, Any), ""
        if get_origin(annotation) is Annotated:
            annotation, text = get_args(annotation)[:2]
        options.append(Option(parameter.name, annotation, parameter.default, text))
    return tuple(options)


def checked_options(structure: str, options: Mapping[str, Any], *, table: bool = False) -> dict[str, Any]:
    """Return options converted to the types that the structure declares.

    They are those in ``options``, in its order, without defaults of others. Text is converted too: "8" to 8. With
    ``table``, ``structure`` may also name an embedding.

    Raises:
        PhmrunError: The structure or option is unknown, a value cannot be converted, or an integer is too large.
    """
    valid = {option.name: option for option in options_of(structure, table=table)}
    checked = {}
    for name, value in options.items():
        if name not in valid:
            raise unknown("option", name, valid, what=f"the layer {structure!r} has no option {name!r}")
        try:
            checked[name] = TypeAdapter(valid[name].annotation).validate_python(value)
        except ValidationError as error:
            raise PhmrunError(f"{value!r}: {error.errors()[0]['msg']}", where=f"{structure}.{name}") from error
        if isinstance(checked[name], int) and abs(checked[name]) > LARGEST_NUMBER:
            raise PhmrunError(f"must be no larger than {LARGEST_NUMBER:,}", where=f"{structure}.{name}")
    return checked


def check_options(what: str, known: tuple[Option, ...], given: Mapping[str, Any]) -> None:
    """Check that all options exist and that literal values are valid choices.

    Values of other than ``Literal`` options are not checked.

    Args:
        what: Owner of the options in messages.
        known: Valid options.
        given: Values by name.

    Raises:
        PhmrunError: The first unknown option or invalid choice.
    """
    annotations = {option.name: option.annotation for option in known}
    for name, value in given.items():
        if name not in annotations:
            raise unknown("option", name, annotations, what=f"{what} has no option {name!r}")
        if get_origin(annotations[name]) is Literal and value not in get_args(annotations[name]):
            raise unknown(f"{name} of {what}", str(value), get_args(annotations[name]))
