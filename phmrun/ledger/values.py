"""Values as strict JSON: what a training loop hands over, written so that every JSON reader takes it.

JSON has no NaN and no infinity. They are written as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` and
turned back into floats when read, so that a diverged run still has a history that other programs can open.
"""

import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from os import PathLike, fspath
from typing import Any

from phmrun.documents import parse_json

_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def plain(value: Any, otherwise: Callable[[Any], str] | None = None) -> Any:
    """``value`` as dicts, lists, strings, numbers, booleans and ``None``, all of which JSON can hold.

    Scalars of NumPy and torch become Python numbers, paths become strings, non-finite floats become their names.

    Args:
        value: Any value.
        otherwise: What becomes of a value of another kind.

    Raises:
        TypeError: The value is of a kind that has no plain form, and nothing is said to become of it.
    """
    if isinstance(value, Enum):
        return plain(value.value, otherwise)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _name(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, otherwise) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [plain(item, otherwise) for item in items]
    if isinstance(value, PathLike):
        return fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return plain(value.item(), otherwise)
    if otherwise is not None:
        return otherwise(value)
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")


def restored(value: Any) -> Any:
    """The inverse of `plain` for non-finite floats, at any depth."""
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return value


def parsed(content: bytes) -> Any:
    """What stands in a JSON file of a run, non-finite floats restored.

    Raises:
        ValueError: It is not JSON.
    """
    value = parse_json(content)
    return restored(value) if b'NaN"' in content or b'Infinity"' in content else value


def to_line(row: Mapping[str, Any]) -> str:
    """One row as one line of JSON, line end included."""
    return json.dumps(plain(row), ensure_ascii=False, allow_nan=False) + "\n"


def _name(value: float) -> str:
    """The written name of a non-finite float."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values as one level, under names joined by dots."""
    joined: dict[str, Any] = {}
    for key, value in values.items():
        joined |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return joined
