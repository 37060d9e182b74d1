"""Errors of plug-ins: the plug-in's file and line, instead of a bug in phmrun."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from traceback import walk_tb
from types import FunctionType
from typing import Any

from phmrun.errors import ExitCode, PhmrunError
from phmrun.registry import OURS, all_announcements, is_plugin

NEAR = 3
"""Number of innermost frames of phmrun whose objects are searched for a plug-in."""


def plugin_error(error: BaseException) -> PhmrunError | None:
    """Return the error (exit 4) of a plug-in, or None if no plug-in is involved.

    The place is the innermost line of a plug-in in the traceback. Otherwise it is the definition of a plug-in's object
    that phmrun's innermost frames use; this is not tried for ``SystemExit``.
    """
    summary = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    hint = "Run the command again with --debug to see the traceback."
    for cause in _causes(error):
        for frame, line in reversed([*walk_tb(cause.__traceback__)]):
            if _is_plugin(str(frame.f_globals.get("__name__"))):
                where = f"{frame.f_code.co_filename}:{line}"
                return PhmrunError(f"the plug-in raises {summary}", where=where, hint=hint, code=ExitCode.TRAINING)
    for used in () if isinstance(error, SystemExit | OSError | MemoryError) else _objects(error):
        what = f"{used.__name__} of the plug-in does not keep to its interface: {summary}"
        return PhmrunError(what, where=place_of(used), hint=hint, code=ExitCode.TRAINING)
    return None


def place_of(thing: Any) -> str:
    """Return file and line of a class or function; the module of other objects, and without source."""
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return str(thing.__module__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that it comes from; an exit and an interruption alone."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = (cause.__cause__ or cause.__context__) if isinstance(cause, Exception) else None


def _objects(error: BaseException) -> Iterator[Any]:
    """Yield functions and classes of plug-ins that phmrun's innermost frames use, directly or in an object."""
    ours = [it for it, _ in walk_tb(error.__traceback__) if str(it.f_globals.get("__name__")).split(".")[0] == OURS]
    for frame in reversed(ours[-NEAR:]):
        for value in [*frame.f_locals.values()]:
            held = getattr(value, "__dict__", {})
            for candidate in (value, *held.values(), *(held.get("_modules") or {}).values()):
                kind: Any = candidate if isinstance(candidate, type | FunctionType) else type(candidate)
                if _is_plugin(str(kind.__module__)):
                    with suppress(OSError, TypeError, SyntaxError):  # without source that can be read
                        inspect.getsourcelines(kind)
                        yield kind


def _is_plugin(module: str) -> bool:
    """Return True for a module of a plug-in file, of its folder, or of a package that announces parts."""
    package = module.partition(".")[0]
    if package in (OURS, "torch"):
        return False
    modules = (by.point.value.partition(":")[0] for by in all_announcements() if by.distribution != OURS)
    return package in {name.partition(".")[0] for name in modules} or is_plugin(module)
