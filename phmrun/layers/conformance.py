"""What a class lacks to be a structure, said in the terms of whoever wrote it.

A structure of a user's own is looked at three times (one that comes with the package by its tests): when it is
registered (what it must have), when it is first built (a trial on torch's meta device, without memory: does it draw,
build and count), and whenever it is built (does its closed form count what is there).
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from phmrun.errors import PhmrunError

NEEDED = {
    "reset_parameters": "def reset_parameters(self, std: float) -> None, which draws the parameters",
    "materialize": "def materialize(self) -> Tensor, which builds W [out_features, in_features]",
}
"""What a structure must define, and how."""

SLIPS = (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError)
"""What Python raises where a class is not what its caller takes it for."""

Result = TypeVar("Result")


def check_class(structure: type[Any], base: type[Any]) -> None:
    """Refuses a class that cannot be a structure, whatever its sizes and options.

    Args:
        structure: What somebody registers.
        base: The class of all structures.

    Raises:
        PhmrunError: What it lacks, and what to write.
    """
    if not (isinstance(structure, type) and issubclass(structure, base)):
        raise PhmrunError(f"{structure!r} is no structure", hint="Derive it from phmrun.layers.Structure.")
    for name, line in NEEDED.items():
        if getattr(structure, name) is getattr(base, name):
            raise _slip(structure, f"has no {name}", f"Define {line}.")
    names = list(inspect.signature(structure.__init__).parameters.values())[1:]
    wanted = "def __init__(self, out_features: int, in_features: int, *, option: int = 4)"
    if [each.name for each in names[:2]] != ["out_features", "in_features"]:
        raise _slip(structure, "does not begin with out_features and in_features in __init__", f"Write {wanted}.")
    options = names[2:]
    for each in options:
        if each.kind is not inspect.Parameter.KEYWORD_ONLY or each.default is inspect.Parameter.empty:
            fault = f"has {str(each)!r} in __init__, which is no option: a name after * with a default"
            raise _slip(structure, fault, f"Write {wanted}.")
        if each.annotation is inspect.Parameter.empty:
            written = f'{each.name}: Annotated[{type(each.default).__name__}, "its meaning"] = {each.default!r}'
            raise _slip(structure, f"does not say of which type its option {each.name!r} is", f"Write {written}.")
    # Defaults must go through check, since a listing asks it for every size.
    try:
        inspect.signature(structure.check).bind(1, 1, **{each.name: each.default for each in options})
    except TypeError as error:
        given = "".join(f", {each.name}" for each in options)
        hint = f"Write def check(cls, out_features, in_features{', *' if options else ''}{given}) -> str | None."
        raise _slip(structure, f"does not take all of its options in check: {error}", hint) from error


def built(structure: type[Any], out_features: int, in_features: int, **options: Any) -> Any:
    """The structure, once a trial has shown that it keeps its word.

    Raises:
        PhmrunError: The sizes or options do not fit, or the class does something else than it says.
    """
    size = (out_features, in_features)
    if structure not in _TRIED:
        with torch.device("meta"):
            trial = _attempt(structure, "__init__", lambda: structure(*size, **options))
            _attempt(structure, "reset_parameters", lambda: trial.reset_parameters(1.0))
            matrix = _attempt(structure, "materialize", lambda: _without_memory(trial))
        # Wrong sizes would only come up in the first matrix product, in torch's words.
        if matrix is not None and tuple(matrix.shape) != size:
            raise _slip(
                structure, f"builds a matrix of shape {list(matrix.shape)} where [{out_features}, {in_features}] is due"
            )
        if not any(True for _ in trial.parameters()):
            raise _slip(structure, "has no parameters", "Make them nn.Parameter and attributes of self.")
        _TRIED.add(structure)
    made = _attempt(structure, "__init__", lambda: structure(*size, **options))
    if "count" in vars(structure):
        said = _attempt(structure, "count", lambda: structure.count(*size, **{**structure.defaults(), **options}))
        there = made.kept()
        if said != there:
            fault = f"counts {said:,} parameters for {out_features}×{in_features}, but has {there:,}"
            raise _slip(structure, fault, "Mend its count, or leave it out: what is built is counted.")
    return made


_TRIED: set[type] = set()
"""Classes that have been tried in this process."""


def _without_memory(trial: Any) -> torch.Tensor | None:
    """W on the meta device; ``None`` where it takes an operation that needs numbers."""
    try:
        matrix: torch.Tensor = trial.materialize()
    except NotImplementedError:
        return None
    except RuntimeError as error:
        if "meta" in str(error):
            return None
        raise _slip(type(trial), f"fails in materialize: {error}") from error
    return matrix


def _attempt(structure: type, where: str, action: Callable[[], Result]) -> Result:
    """What ``action`` gives; a slip of somebody's class is told as one."""
    try:
        return action()
    except SLIPS as error:
        raise _slip(structure, f"fails in {where}: {type(error).__name__}: {error}") from error


def _slip(structure: type, fault: str, hint: str | None = None) -> PhmrunError:
    """The error for a class that is not what a structure should be, with the place of its source."""
    try:
        where = f"{inspect.getsourcefile(structure)}:{inspect.getsourcelines(structure)[1]}"
    except (OSError, TypeError):
        where = structure.__module__
    return PhmrunError(f"the structure {structure.__qualname__} {fault}", where=where, hint=hint)
