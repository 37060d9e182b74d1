"""What a run is, in the few words that a listing shows, read from its config."""

from collections.abc import Mapping
from typing import Any

import yaml


def about_config(config_yaml: str) -> dict[str, Any]:
    """Task, data, layer and seed of a resolved config; what the config does not say is left out."""
    try:
        config = yaml.safe_load(config_yaml)
    except yaml.YAMLError:
        return {}
    if not isinstance(config, Mapping):
        return {}
    data = config.get("data")
    found = {
        "task": config.get("task"),
        "data": data.get("name") if isinstance(data, Mapping) else data,
        "layer": layer_label(config.get("layer")),
        "seed": config.get("seed"),
    }
    return {key: value for key, value in found.items() if value is not None}


def layer_label(layer: Any) -> str | None:
    """A weight structure with its numbers, ``phm n=8``; options that are words or switches are left out."""
    if not isinstance(layer, Mapping):
        return str(layer) if layer else None
    numbers = [
        f"{key}={value}"
        for key, value in layer.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return " ".join([str(layer.get("structure", "dense")), *numbers])
