"""Options of structures and embeddings: a section with the keyword arguments of a constructor.

Those of phmrun's structures are read from their source, so that plans and tables need no torch.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, Field, ValidationError, create_model

from phmrun.errors import PhmrunError, unknown
from phmrun.registry import EMBEDDINGS, FREEZE, OURS, STRUCTURES
from phmrun.section import Section


class _Options(Section):
    """Base of all options; a custom type accepts its instances."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


def options_of(name: str, *, table: bool = False) -> type[Section]:
    """Return the options of a structure or embedding, in the constructor's order.

    For a structure ``freeze`` follows, unless its constructor has it. Fixed options of an embedding are left out.

    Args:
        name: Name of a structure or, with ``table``, of an embedding.
        table: Accept embeddings too.

    Raises:
        PhmrunError: There is no such structure, or ``name`` is an embedding and ``table`` is False.
    """
    if table and name in EMBEDDINGS:
        options: type[Section] = EMBEDDINGS.get(name).options
        return options
    if name in STRUCTURES:
        announced = STRUCTURES.announcement(name)
        if announced is not None and announced.distribution == OURS:
            return section_of(_constructor(announced.point.value), freezes=True)
        return section_of(STRUCTURES.get(name).__init__, freezes=True)
    if name in EMBEDDINGS:
        what = f"{name!r} makes the vectors of an embedding, not a weight matrix"
        raise PhmrunError(what, hint=f"use --embedding {name}")
    if table:
        raise unknown("embedding", name, [*STRUCTURES.names(), *EMBEDDINGS.names()])
    raise unknown("layer", name, STRUCTURES.names())


@functools.cache
def _constructor(place: str) -> Callable[..., Any]:
    """Return a function with the keyword-only parameters of a constructor, read from its source.

    Their types are those of ``typing``, of this module, or literals that the source's module names.

    Args:
        place: ``module:Class`` of phmrun.
    """
    module, _, name = place.partition(":")
    path = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    source = ast.parse(path.read_text(encoding="utf-8"))
    owner = next(node for node in source.body if isinstance(node, ast.ClassDef) and node.name == name)
    init = next((node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    if init is None:  # that of its first base
        base = ast.unparse(owner.bases[0])
        imports = [node for node in source.body if isinstance(node, ast.ImportFrom)]
        home = next(node.module for node in imports if base in [alias.name for alias in node.names])
        return _constructor(f"{home}:{base}")
    init.body, init.returns = [ast.Pass()], None
    for argument in filter(None, (*init.args.args, init.args.kwarg)):
        argument.annotation = None  # types of torch
    kept: list[ast.stmt] = [node for node in source.body if _names_types(node)]
    scope: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(ast.Module([*kept, init], [])), str(path), "exec"), scope)
    constructor: Callable[..., Any] = scope["__init__"]
    return constructor


def _names_types(node: ast.stmt) -> bool:
    """True for an import from ``typing`` or this module, and for an assignment of a ``Literal``."""
    if isinstance(node, ast.ImportFrom):
        return node.module in ("typing", __name__)
    value = getattr(node.value, "value", None) if isinstance(node, ast.Assign) else None
    return isinstance(value, ast.Name) and value.id == "Literal"


@functools.lru_cache(maxsize=512)
def section_of(
    function: Callable[..., Any], *, freezes: bool = False, fixed: frozenset[str] = frozenset()
) -> type[Section]:
    """Return a section whose keys are the keyword-only parameters of a function; cached.

    ``Annotated[type, text]`` gives a key's type and description. A key without default is required.

    Args:
        function: Constructor, or function that builds an embedding.
        freezes: Add the option ``freeze``, unless the function has it.
        fixed: Names of parameters to leave out.
    """
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in fixed:
            kind = hints.get(name, Any)
            text = next((mark for mark in getattr(kind, "__metadata__", ()) if isinstance(mark, str)), "")
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[name] = (kind, Field(default, description=text))
    if freezes and FREEZE not in fields:
        fields[FREEZE] = (str, Field("none", description="Parameters that are not trained, by name, as in a or u,v"))
    return create_model("Options", __base__=_Options, **fields)


def checked_options(what: str, section: type[Section], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with their values converted to the options' types; missing ones stay missing.

    Args:
        what: Owner of the options in errors: "layer 'phm'".
        section: Its options.
        options: Values by name, also as texts.

    Raises:
        PhmrunError: An option is unknown or its value invalid.
    """
    try:
        checked = section.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name, value = str(first["loc"][0]), first["input"]
        if first["type"] == "extra_forbidden":
            raise unknown("option", name, section.model_fields, what=f"{what} has no option {name!r}") from error
        raise PhmrunError(f"{value!r}: {first['msg']}", where=f"{name} of {what}") from error
    return {name: getattr(checked, name) for name in options}
