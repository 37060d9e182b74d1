"""What a run is, in the few words that a listing shows, read from its config."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError

PLAIN = "dense"


def about_config(config_yaml: str) -> dict[str, Any]:
    """Task, data, network and seed of a resolved config; what the config does not say is left out.

    ``layer`` is the structure inside the blocks, ``network`` names all parts that are not dense.
    """
    try:
        config = parse_yaml(config_yaml, "config.yaml")
    except PhmrunError:
        return {}
    if not isinstance(config, Mapping):
        return {}
    data = config.get("data")
    found = {
        "task": config.get("task"),
        "data": data.get("name") if isinstance(data, Mapping) else data,
        "layer": layer_label(config.get("layer")),
        "network": network_label(config),
        "seed": config.get("seed"),
    }
    return {key: value for key, value in found.items() if value is not None}


def config_values(path: Path) -> dict[str, Any]:
    """What a run's ``config.yaml`` says, as plain values.

    Raises:
        PhmrunError: (exit 3) It cannot be read.
    """
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        what = f"the configuration cannot be read: {error}"
        raise PhmrunError(what, where=str(path), code=ExitCode.DATA) from error
    except PhmrunError as error:
        what = f"the configuration cannot be read: {error.what}"
        raise PhmrunError(what, where=error.where, code=ExitCode.DATA) from error
    return values if isinstance(values, dict) else {}


def layer_label(layer: Any, *, words: bool = False) -> str | None:
    """A weight structure with its numbers, ``phm n=8``.

    Args:
        layer: The section of a configuration, or a structure's name.
        words: Whether options that are words or switches are named too, ``phm n=8 freeze=a``: of what somebody wrote,
            not of a resolved configuration, which holds every option.
    """
    if not isinstance(layer, Mapping):
        return str(layer) if layer else None
    options = {key: value for key, value in layer.items() if key != "structure"}
    named = [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in options.items()
        if words or (isinstance(value, int | float) and not isinstance(value, bool))
    ]
    return " ".join([str(layer.get("structure", PLAIN)), *named])


def network_label(config: Mapping[str, Any]) -> str | None:
    """The parts of a network that are not dense: ``phm n=8``, ``output circulant``; ``dense`` where all are.

    ``None`` where the config says nothing of its layers.
    """
    labels = {part: layer_label(config.get(part)) for part in ("layer", "embedding", "output")}
    if not any(labels.values()):
        return None
    named = [
        label if part == "layer" else f"{part} {label}" for part, label in labels.items() if label not in (None, PLAIN)
    ]
    return ", ".join(str(name) for name in named) or PLAIN
