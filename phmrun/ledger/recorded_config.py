"""Recorded configuration of a run, read without its schema: values, and labels of its network."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_text

PLAIN = "dense"
BUDGET = "budget"  # option of structures whose other numbers may be 0: as large as it allows


def about_config(config_yaml: str) -> dict[str, Any]:
    """Return task, data, layer, network and seed of a resolved config.

    Keys: "task", "data" (its name), "layer", "network" and "seed". Missing ones are left out; a damaged config gives an
    empty dictionary.
    """
    try:
        config = parse_yaml(config_yaml, "config.yaml")
    except PhmrunError:
        config = None
    if not isinstance(config, Mapping):
        return {}
    data = config.get("data")
    facts = {
        "task": config.get("task"),
        "data": data.get("name") if isinstance(data, Mapping) else data,
        "layer": layer_label(config.get("layer")),
        "network": network_label(config),
        "seed": config.get("seed"),
    }
    return {key: value for key, value in facts.items() if value is not None}


def config_values(path: Path) -> dict[str, Any]:
    """Return the values of a ``config.yaml``.

    The result is empty if it is not a mapping.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, or is not valid YAML.
    """
    try:
        values = parse_yaml(read_text(path), str(path))
    except (OSError, UnicodeDecodeError, PhmrunError) as error:
        why, where = (error.what, error.where) if isinstance(error, PhmrunError) else (error, str(path))
        raise PhmrunError(f"the configuration cannot be read: {why}", where=where, code=ExitCode.DATA) from error
    return values if isinstance(values, dict) else {}


def layer_label(layer: Any, *, words: bool = False) -> str | None:
    """Return the label of a weight structure: ``phm n=8``.

    Options that are numbers are named; others, and truth values, only with ``words``.

    Args:
        layer: Section of a config, or the name of a structure.
        words: Name all options: ``phm n=8 freeze=a``. Meant for options set by the user, not for resolved configs.

    Returns:
        The label; the name alone if ``layer`` is a name; ``None`` if ``layer`` is empty and not a section. A section
        without a structure is ``dense``. Without ``words``, a number before ``budget`` that is 0 is left out, and the
        budget that it is chosen for is named: ``low-rank budget=1/4``; of a structure around another, that one with
        its options alone: ``added low-rank rank=4``.
    """
    if not isinstance(layer, Mapping):
        return str(layer) if layer else None
    options = {key: value for key, value in layer.items() if key != "structure"}
    if not words:
        place = list(options).index(BUDGET) if BUDGET in options else 0
        chosen = [key for key in list(options)[:place] if options[key] == 0 and not isinstance(options[key], bool)]
        shown = {key for key, value in options.items() if type(value) in (int, float)} | ({BUDGET} if chosen else set())
        inside = " ".join(str(options[key]) for key in ("of", "options") if options.get(key))
        options = {key: value for key, value in options.items() if key in shown and key not in chosen}
        if inside:  # an update, or help in training, by another structure
            return f"{layer.get('structure', PLAIN)} {inside}"
    named = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()]
    return " ".join([str(layer.get("structure", PLAIN)), *named])


def network_label(config: Mapping[str, Any]) -> str | None:
    """Return the parts of a network that are not dense.

    An example is ``phm n=8, output circulant``. A dense network is ``dense``; the label is ``None`` if the config names
    no part.
    """
    labels = {part: layer_label(config.get(part)) for part in ("layer", "embedding", "output")}
    if not any(labels.values()):
        return None
    named = {part: label for part, label in labels.items() if label not in (None, PLAIN)}
    return ", ".join(f"{part} {label}".removeprefix("layer ") for part, label in named.items()) or PLAIN
