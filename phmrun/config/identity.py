"""Identity of an experiment: the canonical JSON whose checksum is in the run id.

Imports no torch.

The identity contains the schema's version, all semantic values that differ from their defaults, and the versions of
changed mathematics. It also contains the fingerprints: SHA-256 checksums of the user's files, plug-ins and datasets.

**Changed mathematics gets a new version, and its runs new ids.** If a correction changes what a network, decoder,
dropout mask or metric computes, a run made before it must not be continued or scored by the code after it. Raise the
version beside the key that selects the mathematics, in the section that declares the key::

    class LanguageModelOptions(ModelConfig):
        versions = {
            "network=transformer-xl": 2,  # positions begin at 0
            "weight_dropout": 2,  # one mask per batch
        }

- ``"key=value"`` applies to configurations in which the key, a field or property of the section, has this value.
- ``"key"`` applies to configurations in which the key is on: not null, false, 0 or empty.
- A metric has :attr:`phmrun.metric.Metric.version`, which applies to all runs of the tasks that list the metric.
- Layers have their versions in :data:`LAYER_VERSIONS`, by structure name and option.

Version 1 is not hashed. The first increase (to 2) therefore changes only the ids of configurations that use the
changed mathematics. Files of old runs remain readable.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic_core import to_jsonable_python

from phmrun.config.experiment import Experiment
from phmrun.config.sections import SHARED_VERSION, LayerConfig
from phmrun.registry import TASKS
from phmrun.section import OpenSection, Section, former_name, is_hashed

LAYER_VERSIONS = {
    **{"define": 2, "hgt": 2, "glt": 2, "glt-shuffle": 2, "linear": 2, "kronecker": 2, "guided": 2},
    **{"phm variant=released": 2, "guided options=variant=released": 2},
}
"""Version of each changed layer. Raise it when a default of the layer changes its value, or when its network does.

``"structure option=value"`` applies if the text of the structure's option contains the value.
"""


def run_id(config: Experiment, *, fingerprints: Mapping[str, str]) -> str:
    """Return the run id: ``task-data-network-seed-<12 hexadecimal digits>``.

    The network is named by its non-default structures, ``phm`` or ``output-circulant``; without any, by that of
    ``layer``. In task, data and network, characters other than letters, digits and ``._`` become hyphens; an empty part
    is "x". The digits are the start of the SHA-256 of :func:`canonical_identity`. Devices, paths, logging, time limits
    and options at their defaults do not change the id.
    """
    digits = digits_of(canonical_identity(config, fingerprints))
    built = {part: getattr(config, part).structure for part in ("layer", "embedding", "output")}
    unusual = [part for part, name in built.items() if name != _default(type(config), part).structure]
    network = " ".join(built[part] if part == "layer" else f"{part} {built[part]}" for part in unusual)
    parts = (config.task, config.data.name, network or built["layer"], str(config.seed), digits)
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-.") or "x" for part in parts)


def canonical_identity(config: Experiment, fingerprints: Mapping[str, str]) -> str:
    """Return the canonical JSON that the run id is a checksum of.

    Keys: "version" (of the shared and the task's schema), "task", "values" (those that differ from defaults), and
    "fingerprints". Versions above 1 are under "layers" and "mathematics", left out if there are none. ``fingerprints``
    are SHA-256 checksums of files, plug-ins and datasets by name.
    """
    identity: dict[str, Any] = {
        "version": f"{SHARED_VERSION}.{type(config).version}",
        "task": config.task,
        "values": semantic_values(config, former_names=True),
        "fingerprints": dict(fingerprints),
    }
    if layers := layer_versions(config):
        identity["layers"] = layers
    if mathematics := changed_mathematics(config) | metric_versions(config.task):
        identity["mathematics"] = mathematics
    return json.dumps(identity, sort_keys=True, allow_nan=False, separators=(",", ":"))


def changed_versions(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the versions that differ between two identities.

    An entry is "model.network=lstm, version 1, now 2". A missing version is 1. Layers come first, then mathematics,
    each by name.
    """
    versions = []
    for kind in ("layers", "mathematics"):
        old, new = (identity.get(kind, {}) for identity in (before, now))
        names = (name for name in sorted(old.keys() | new.keys()) if old.get(name, 1) != new.get(name, 1))
        versions += [f"{name}, version {old.get(name, 1)}, now {new.get(name, 1)}" for name in names]
    return versions


def digits_of(identity: str) -> str:
    """Return the 12 hexadecimal digits of a canonical identity's run id.

    They are the first ones of its SHA-256.
    """
    return hashlib.sha256(identity.encode("utf-8")).hexdigest()[:12]


def layer_versions(section: Section) -> dict[str, int]:
    """Return the versions of the changed layers in use, by the names of :data:`LAYER_VERSIONS`.

    Subsections are included, those in tuples (``maps``), too. A structure that has never changed has no version, and is
    left out.
    """
    versions: dict[str, int] = {}
    if isinstance(section, LayerConfig):
        versions |= {entry: version for entry, version in LAYER_VERSIONS.items() if _is_layer(section, entry)}
    for _, value in subsections(section):
        versions |= layer_versions(value)
    return versions


def _is_layer(layer: LayerConfig, entry: str) -> bool:
    """Return True if an entry of :data:`LAYER_VERSIONS` applies to the layer."""
    structure, _, condition = entry.partition(" ")
    option, _, wanted = condition.partition("=")
    return layer.structure == structure and (not option or wanted in str(layer.options.get(option)))


def changed_mathematics(section: Section, prefix: str = "") -> dict[str, int]:
    """Return the versions above 1 of the mathematics in use.

    Subsections are included, those in tuples (``maps``), too. Keys are dotted, after ``prefix``:
    ``{"model.network=transformer-xl": 2}``.
    """
    versions = {
        f"{prefix}{entry}": version
        for entry, version in type(section).all_versions().items()
        if version > 1 and _is_in_use(section, entry)
    }
    for name, value in subsections(section):
        versions |= changed_mathematics(value, f"{prefix}{name}.")
    return versions


def metric_versions(task: str) -> dict[str, int]:
    """Return the versions above 1 of a task's metrics: ``{"metric bleu": 2}``.

    Empty for an unknown task.
    """
    metrics = TASKS.get(task).metrics if task in TASKS else ()
    return {f"metric {metric.name}": metric.version for metric in metrics if metric.version > 1}


def _is_in_use(section: Section, entry: str) -> bool:
    """Return True if an entry of ``versions`` applies to the section.

    ``"key=value"`` applies if the key, or one of its elements, has this value; ``"key"`` if the key is on: not null,
    false, 0 or empty.
    """
    key, compares, wanted = entry.partition("=")
    value = getattr(section, key)
    if not compares:
        return bool(value)
    return wanted in map(str, value) if isinstance(value, tuple) else str(value) == wanted


def subsections(section: Section) -> Iterator[tuple[str, Section]]:
    """Yield name and value of each section in a section, and of each in one of its tuples, such as ``maps``."""
    for name, value in vars(section).items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Section):
                yield name, part


def semantic_values(config: Experiment, *, former_names: bool = False) -> dict[str, Any]:
    """Return the hashed values that differ from their defaults, by dotted key.

    Args:
        config: A resolved configuration.
        former_names: Use the former names of renamed keys, as run ids do. Default: the present names.
    """
    return _different(config, None, "", former_names)


@cache
def _default(section: type[Section], name: str) -> Any:
    """Return the default of a key.

    It is cached for all callers, so do not modify it.
    """
    return section.model_fields[name].get_default(call_default_factory=True)


def _different(section: Section, default: Section | None, prefix: str, former_names: bool) -> dict[str, Any]:
    """Return the hashed values that differ from ``default``, by dotted key.

    If ``default`` is None, compare with the section's own defaults. Options of a layer are compared with the
    structure's defaults; one without a default is always in the result. Values are as in JSON.
    """
    kind = type(section)
    values: dict[str, Any] = {}
    for name in kind.model_fields:
        if not is_hashed(kind, name):
            continue
        value = getattr(section, name)
        usual = getattr(default, name) if default else _default(kind, name)
        if isinstance(value, Section):
            within = usual if type(usual) is type(value) else None
            values |= _different(value, within, f"{prefix}{name}.", former_names)
        elif value != usual:
            values[f"{prefix}{former_name(kind, name) if former_names else name}"] = to_jsonable_python(value)
    if isinstance(section, OpenSection):
        # Options at the structure's own default are left out, so that a later new option keeps the ids of old runs.
        defaults = section.option_defaults
        for name, value in section.options.items():
            if name not in defaults or value != defaults[name]:
                values[f"{prefix}{name}"] = to_jsonable_python(value)
    return values
