"""Cells by their values: ``layer=phm``, ``layer.n=4``, ``row=Transformer``, ``seed=2``. Imports no torch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phmrun.config import Experiment, LayerConfig
from phmrun.config.sections import Section
from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError
from phmrun.ledger.status import layer_label

_NOTHING = object()


def read_selection(texts: Iterable[str]) -> dict[str, list[Any]]:
    """What ``--only key=value`` asks for; values of a key given again are further ones that fit.

    Raises:
        PhmrunError: A text is not of that form.
    """
    wanted: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise PhmrunError(
                f"{text!r} is not of the form key=value", where="--only", hint="As in --only layer=phm --only seed=1."
            )
        wanted.setdefault(key.strip(), []).append(parse_yaml(value, f"--only {text}"))
    return wanted


def fits(at: Mapping[str, Any], config: Experiment | None, wanted: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a cell has one of the wanted values at every wanted key.

    Args:
        at: Where the cell stands in its sweep: row, column, or the keys of the grid.
        config: Its configuration, whose dotted keys may be named as well; a section with a name or a structure may be
            named for that: ``layer=phm``, ``data=multi30k``.
        wanted: Values by key.
    """
    return all(
        any(_is(there, value) for there in _there(at, config, key) for value in values)
        for key, values in wanted.items()
    )


def _there(at: Mapping[str, Any], config: Experiment | None, key: str) -> list[Any]:
    """What a cell has at a key: in the sweep, and in its configuration."""
    found = [at[key]] if key in at else []
    value: Any = config
    for part in key.split("."):
        if isinstance(value, LayerConfig) and part in value.options:
            value = value.options[part]
        elif isinstance(value, Section) and part in type(value).model_fields:
            value = getattr(value, part)
        else:
            return found
    return [*found, value]


def _is(there: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, as it is or as it is written."""
    if isinstance(there, LayerConfig):
        there = {"structure": there.structure, **there.options}
    elif isinstance(there, Section):
        there = getattr(there, "name", _NOTHING)
    if isinstance(there, Mapping) and "structure" in there and not isinstance(wanted, Mapping):
        return str(wanted) in (there["structure"], layer_label(there))
    return bool(there == wanted) or str(there) == str(wanted)
