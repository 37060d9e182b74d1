"""The name of an experiment: the same for the same experiment, on every machine and in every version."""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic_core import to_jsonable_python

from phmrun.config.experiment import Experiment
from phmrun.config.schema import Section, former_name, is_hashed
from phmrun.config.sections import LAYER_VERSIONS, SHARED_VERSION, LayerConfig


def run_id(config: Experiment, *, fingerprints: Mapping[str, str]) -> str:
    """The run id, ``task-data-network-seed-<12 hexadecimal digits>``.

    The network is named by the structures of the parts that are not the default's: ``phm``, ``output-circulant``.

    The digits are the start of a SHA-256 over the schema's version, every semantic value that differs from its
    default, and the fingerprints. A new option with a default therefore leaves the names of old runs alone, and so do
    devices, paths, logging and time limits.

    Args:
        config: A resolved configuration.
        fingerprints: SHA-256 sums of the user's files, of plug-ins and of catalogued data, by name.
    """
    identity: dict[str, Any] = {
        "version": f"{SHARED_VERSION}.{type(config).version}",
        "task": config.task,
        "values": semantic_values(config, former_names=True),
        "fingerprints": dict(fingerprints),
    }
    if layers := layer_versions(config):
        identity["layers"] = layers
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()[:12]
    parts = (config.task, config.data.name, _structures(config), str(config.seed), digest)
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-.") or "x" for part in parts)


def layer_versions(section: Section) -> dict[str, int]:
    """The versions of the layers in use that have been changed, :data:`LAYER_VERSIONS`; the others leave no mark."""
    found: dict[str, int] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, LayerConfig) and value.structure in LAYER_VERSIONS:
            found[value.structure] = LAYER_VERSIONS[value.structure]
        if isinstance(value, Section):
            found |= layer_versions(value)
    return found


def _structures(config: Experiment) -> str:
    """The structures of the parts that are not the usual ones; that of the blocks where all are."""
    named = []
    for part in ("layer", "embedding", "output"):
        layer, usual = getattr(config, part), _default(type(config), part)
        if layer.structure != usual.structure:
            named.append(layer.structure if part == "layer" else f"{part} {layer.structure}")
    return " ".join(named) or config.layer.structure


def semantic_values(config: Experiment, *, former_names: bool = False) -> dict[str, Any]:
    """What makes the experiment what it is: dotted key to value, defaults and unhashed keys left out.

    Args:
        config: A resolved configuration.
        former_names: Renamed keys under the names that they had, as run ids need them.
    """
    values: dict[str, Any] = {}
    _collect(config, None, "", values, former_names)
    return values


@cache
def _default(section: type[Section], name: str) -> Any:
    """The default of a key; it is only compared with."""
    return section.model_fields[name].get_default(call_default_factory=True)


def _collect(
    section: Section, default: Section | None, prefix: str, values: dict[str, Any], former_names: bool
) -> None:
    for name in type(section).model_fields:
        if not is_hashed(type(section), name):
            continue
        value = getattr(section, name)
        usual = getattr(default, name) if default else _default(type(section), name)
        if isinstance(value, Section):
            _collect(value, usual if type(usual) is type(value) else None, f"{prefix}{name}.", values, former_names)
        elif value != usual:
            key = former_name(type(section), name) if former_names else name
            values[f"{prefix}{key}"] = to_jsonable_python(value)
    if isinstance(section, LayerConfig):
        defaults = section.option_defaults
        for name, value in section.options.items():
            if name not in defaults or value != defaults[name]:
                values[f"{prefix}{name}"] = to_jsonable_python(value)
