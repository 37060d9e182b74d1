"""Selection of a sweep's cells by their values, and the values as text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phmrun.config import Experiment, LayerConfig
from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError
from phmrun.ledger.directory import layer_label
from phmrun.section import Section

SEED = "seed"
Selection = Mapping[str, Sequence[Any]]  # values by key, one of which a cell must have


def pattern_of(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return values by key with each value as a list of alternatives.

    A value that is a list stays as it is.
    """
    return {key: value if isinstance(value, list) else [value] for key, value in values.items()}


def listed(pattern: Mapping[str, Sequence[Any]]) -> str:
    """Return a pattern as text, each value with its key, once: "layer=dense, layer=phm n=4, lr=0.1"."""
    return ", ".join(dict.fromkeys(f"{key}={label_of(value)}" for key, values in pattern.items() for value in values))


def label_of(value: Any) -> str:
    """Return the short text of a grid value.

    A layer's section is shown with all its options ("phm n=4"), another section as "key=value, …", booleans in lower
    case. Other values are their text.
    """
    if isinstance(value, Mapping):
        if "structure" in value:
            return str(layer_label(value, words=True))
        return ", ".join(f"{key}={option}" for key, option in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_selection(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Parse ``--only key=value`` options (``layer=phm``) into values by key.

    A value is given as text and as YAML reads it, either of which may match. Options of one key add up.

    Raises:
        PhmrunError: (exit 2) A text is not of the form key=value, or its value is not YAML.
    """
    wanted: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            what = f"{text!r} is not of the form key=value"
            raise PhmrunError(what, where="--only", hint="As in --only layer=phm --only seed=1.")
        # A text that YAML reads as a number may be a name, too: 1e3.
        wanted.setdefault(key.strip(), []).extend([value, parse_yaml(value, f"--only {text}")])
    return wanted


def fits(at: Mapping[str, Any], config: Experiment | None, wanted: Selection) -> bool:
    """True if a cell has one of the wanted values at each wanted key.

    A key is a grid key, ``row``, ``column``, or a dotted key of the configuration; no cell fits an unknown one. If both
    ``at`` and ``config`` have the key, either may match. A section with a name or a structure also matches by that:
    ``layer=phm``, ``data=multi30k``. Without wanted keys, every cell fits.
    """
    return all(
        any(_equals(there, value) for there in _values_at(at, config, key) for value in values)
        for key, values in wanted.items()
    )


def _values_at(at: Mapping[str, Any], config: Experiment | None, key: str) -> list[Any]:
    """Return a cell's values at a key: the sweep's, then the configuration's.

    The result has none, one or both.
    """
    values = [at[key]] if key in at else []
    value: Any = config
    for part in key.split("."):
        if isinstance(value, LayerConfig) and part in value.options:
            value = value.options[part]
        elif isinstance(value, Section) and part in type(value).model_fields:
            value = getattr(value, part)
        else:
            return values
    return [*values, value]


def _equals(there: Any, wanted: Any) -> bool:
    """True if a value equals the wanted one, itself or as text.

    A layer, or a mapping with ``structure``, also equals its structure's name and its label, unless ``wanted`` is a
    mapping. Another section equals its ``name`` only.
    """
    if isinstance(there, LayerConfig):
        there = {"structure": there.structure, **there.options}
    elif isinstance(there, Section):
        there = getattr(there, "name", object())  # equal to nothing
    if isinstance(there, Mapping) and "structure" in there and not isinstance(wanted, Mapping):
        return str(wanted) in (there["structure"], layer_label(there, words=True))
    return bool(there == wanted) or str(there) == str(wanted)
